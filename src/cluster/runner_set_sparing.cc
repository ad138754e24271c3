// How many runners a RunnerSet should have, and requests that leave those that may go.
#include <algorithm>

#include "base/log.h"
#include "cluster/runner_set.h"
#include "placement/scale_hint.h"

namespace graft {
namespace {

// Tokens that are computed anew in a tick of this frontend: about as many as a step has, so that
// running requests are hardly slowed.
constexpr int64_t kMovedTokensMax = 512;

MovableRequest MovableOf(const InFlight& one) {
  return {one.NumTokens(), one.request.sampling.tokens_max - std::ssize(one.request.output_tokens),
          one.placed.rank};
}

}  // namespace

ScaleHint RunnerSet::hint() const {
  std::lock_guard lock(mutex_);
  ScaleHint hint = sizer_.hint();
  // That no runner is up, or was a second ago, is no reason to start fewer.
  if (hint.runners == 0) hint.runners_wanted = std::max(hint.runners_wanted, runners_.NumKnown());
  hint.runners = static_cast<int32_t>(
      std::ranges::count_if(runners_.all(), [](const RemoteRunner& one) { return one.IsOpen(); }));
  return hint;
}

void RunnerSet::SetWaitingElsewhere(int64_t num_requests) {
  std::lock_guard lock(mutex_);
  sizer_.SetWaitingElsewhere(num_requests);
}

void RunnerSet::SetSpare(const std::vector<std::string>& addresses) {
  std::lock_guard lock(mutex_);
  runners_.MarkSpare(addresses);
}

void RunnerSet::EmptySpare() {
  for (size_t i = 0; i < runners_.size(); ++i) {
    const RemoteRunner& runner = runners_[i];
    if (runner.is_spare && runner.IsOpen() && runner.num_in_flight > 0) Empty(i);
  }
}

// What is moved next is what has the least to be computed anew.
void RunnerSet::Empty(size_t runner) {
  std::vector<InFlight*> there = requests_.AllOn(runner);
  std::erase_if(there, [](const InFlight* one) { return one->is_cancelled; });
  std::sort(there.begin(), there.end(), [](const InFlight* a, const InFlight* b) {
    return std::pair(a->NumTokens(), a->number) < std::pair(b->NumTokens(), b->number);
  });
  std::vector<MovableRequest> movable;
  for (const InFlight* const one : there) movable.push_back(MovableOf(*one));
  std::vector<uint8_t> is_target;
  for (const RemoteRunner& other : runners_.all()) is_target.push_back(other.is_spare ? 0 : 1);
  const CostModel& costs = options_.placement.costs;
  if (!IsWorthEmptying(chooser_.fleet(), runner, movable, is_target, costs)) return;
  int64_t tokens_left = kMovedTokensMax;
  int32_t num_moved = 0;
  for (size_t i = 0; i < there.size() && tokens_left > 0; ++i) {
    if (!IsWorthMoving(chooser_.fleet(), runner, movable[i], costs)) continue;
    if (!MoveFromSpare(*there[i])) continue;
    tokens_left -= movable[i].tokens;
    ++num_moved;
  }
  if (num_moved > 0) {
    LOG_INFO("{} requests of runner {}, which may go, go on elsewhere", num_moved,
             runners_[runner].address);
  }
}

bool RunnerSet::MoveFromSpare(InFlight& one) {
  PlacementNeeds needs = NeedsOf(one);
  needs.refused = {&one.runner, 1};
  std::vector<uint8_t> can = WhichCanTake(runners_.all(), needs);
  chooser_.KeepWithRoom(runners_.all(), one.placed, &can);
  if (!MoveTo(one, can)) return false;
  metrics_.Moved(FrontendMetrics::Move::kSpare);
  return true;
}

}  // namespace graft
