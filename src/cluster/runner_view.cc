#include "cluster/runner_view.h"

#include <algorithm>

namespace graft {

int64_t RequestsOf(const RunnerView& runner) {
  const RunnerLoad& load = runner.load;
  return std::max(load.requests_waiting + load.requests_running + runner.num_sent,
                  runner.num_in_flight);
}

bool CanTake(const RunnerView& runner, size_t idx, const PlacementNeeds& needs) {
  if (!runner.is_up || runner.draining) return false;
  if (!needs.pool.empty() && runner.arithmetic_id != needs.pool) return false;
  if (!needs.adapter_hash.empty() && !runner.adapters.contains(needs.adapter_hash)) return false;
  return std::find(needs.refused.begin(), needs.refused.end(), idx) == needs.refused.end();
}

std::vector<uint8_t> WhoCanTake(const std::vector<RunnerView>& runners,
                                const PlacementNeeds& needs) {
  std::vector<uint8_t> can(runners.size());
  for (size_t i = 0; i < runners.size(); ++i) can[i] = CanTake(runners[i], i, needs) ? 1 : 0;
  return can;
}

int64_t PagesOf(const RunnerView& runner, int64_t tokens) {
  if (runner.page_tokens <= 0) return 0;
  return (tokens + runner.page_tokens - 1) / runner.page_tokens;
}

bool HasPagesFor(const RunnerView& runner, int64_t tokens) {
  const int64_t pages = PagesOf(runner, tokens);
  return pages > 0 && runner.load.requests_waiting == 0 &&
         runner.load.pages_free - runner.pages_sent >= pages;
}

}  // namespace graft
