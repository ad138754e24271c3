#include "cluster/runner_view.h"

#include <algorithm>

namespace graft {

int64_t RequestsOf(const RunnerView& runner) {
  const RunnerLoad& load = runner.load;
  return std::max(load.requests_waiting + load.requests_running + runner.num_sent,
                  runner.num_in_flight);
}

bool HasAdapters(const RunnerView& runner, std::span<const AdapterUse> adapters) {
  return std::all_of(adapters.begin(), adapters.end(),
                     [&](const AdapterUse& use) { return runner.adapters.contains(use.hash); });
}

bool IsInPool(const RunnerView& runner, const std::string& pool) {
  return runner.is_up && (pool.empty() || runner.arithmetic_id == pool);
}

bool CanTake(const RunnerView& runner, size_t idx, const PlacementNeeds& needs) {
  if (!runner.is_up || runner.draining) return false;
  if (!needs.pool.empty() && runner.arithmetic_id != needs.pool) return false;
  if (!HasAdapters(runner, needs.adapters)) return false;
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
