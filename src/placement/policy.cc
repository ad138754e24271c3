#include "placement/policy.h"

#include "base/random.h"

namespace graft {

const char* NameOf(PlacementKind kind) {
  for (const PlacementName& one : kPlacementNames) {
    if (one.kind == kind) return one.name;
  }
  return "";
}

bool LacksPages(const RunnerState& runner, const PlacedRequest& request) {
  return runner.page_tokens > 0 &&
         runner.pages_free <= request.prompt_tokens / runner.page_tokens + 1;
}

bool HasRoom(const Fleet& fleet, size_t idx, const PlacementQuery& query) {
  if (!CanServe(fleet, idx, query)) return false;
  const RunnerState& runner = fleet.runner(idx);
  if (runner.batch_max > 0 && runner.num_requests >= runner.batch_max) return false;
  return runner.num_requests == 0 || !LacksPages(runner, query.request);
}

uint64_t RendezvousWeight(uint64_t adapter_id, uint64_t runner_id) {
  return RandomBits(runner_id, adapter_id);
}

int32_t PickFewestRequests(const Fleet& fleet, const PlacementQuery& query) {
  HolderWalk holders = fleet.WalkHolders(query.request.adapter);
  return PickLeast<std::pair<int64_t, bool>>(
      fleet, [&](size_t i) { return CanServe(fleet, i, query); },
      [&](size_t i) { return std::pair(fleet.runner(i).num_requests, !holders.Holds(i)); });
}

}  // namespace graft
