#include "cluster/runner_view.h"

#include <algorithm>
#include <utility>

namespace graft {
namespace {

// Others' requests are known as of the last heartbeat, this frontend's own as of now.
int64_t RequestsOf(const RunnerView& runner) {
  const RunnerLoad& load = runner.load;
  return std::max(load.requests_waiting + load.requests_running + runner.num_sent,
                  runner.num_in_flight);
}

template <typename Condition>
int PickFewest(const std::vector<RunnerView>& runners, const PlacementNeeds& needs,
               const Condition& holds) {
  int picked = -1;
  std::pair<int64_t, bool> least;  // requests; whether the adapter has to be copied first
  for (size_t i = 0; i < runners.size(); ++i) {
    if (!CanTake(runners[i], i, needs) || !holds(runners[i])) continue;
    const std::pair<int64_t, bool> cost = {RequestsOf(runners[i]),
                                           !runners[i].resident.contains(needs.adapter_hash)};
    if (picked >= 0 && cost >= least) continue;
    picked = static_cast<int>(i);
    least = cost;
  }
  return picked;
}

}  // namespace

bool CanTake(const RunnerView& runner, size_t idx, const PlacementNeeds& needs) {
  if (!runner.is_up || runner.draining) return false;
  if (!needs.pool.empty() && runner.arithmetic_id != needs.pool) return false;
  if (!needs.adapter_hash.empty() && !runner.adapters.contains(needs.adapter_hash)) return false;
  return std::find(needs.refused.begin(), needs.refused.end(), idx) == needs.refused.end();
}

int64_t PagesOf(const RunnerView& runner, int64_t tokens) {
  if (runner.page_tokens <= 0) return 0;
  return (tokens + runner.page_tokens - 1) / runner.page_tokens;
}

int PickMostIdle(const std::vector<RunnerView>& runners, const PlacementNeeds& needs) {
  return PickFewest(runners, needs, [](const RunnerView&) { return true; });
}

int PickWithRoom(const std::vector<RunnerView>& runners, const PlacementNeeds& needs,
                 int64_t tokens) {
  return PickFewest(runners, needs, [&](const RunnerView& runner) {
    const int64_t pages = PagesOf(runner, tokens);
    return pages > 0 && runner.load.requests_waiting == 0 &&
           runner.load.pages_free - runner.pages_sent >= pages;
  });
}

}  // namespace graft
