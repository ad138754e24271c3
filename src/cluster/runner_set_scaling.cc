// How many runners a RunnerSet should have, and requests that leave those that may go.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cluster/runner_set.h"
#include "placement/consolidation.h"

namespace graft {
namespace {

// Where no runner says how long it took.
constexpr double kStartupSeconds = 30.0;
// Tokens that are computed anew in a tick of this frontend: about as many as a step has, so that
// running requests are hardly slowed.
constexpr int64_t kMovedTokensMax = 512;

}  // namespace

ScaleHint RunnerSet::hint() const {
  std::lock_guard lock(mutex_);
  ScaleHint hint = hint_;
  // That no runner is up is no reason to start fewer.
  if (hint.runners == 0) hint.runners_wanted = std::max(hint.runners_wanted, CountKnown());
  return hint;
}

void RunnerSet::SetWaitingElsewhere(int64_t num_requests) {
  std::lock_guard lock(mutex_);
  waiting_elsewhere_ = num_requests;
}

int64_t RunnerSet::num_waiting() const {
  std::lock_guard lock(mutex_);
  return std::ssize(waiting_);
}

void RunnerSet::SetSpare(const std::vector<std::string>& addresses) {
  std::lock_guard lock(mutex_);
  MarkSpare(addresses);
}

int32_t RunnerSet::CountKnown() const {
  return static_cast<int32_t>(std::count_if(
      views_.begin(), views_.end(), [](const RunnerView& view) { return !view.address.empty(); }));
}

void RunnerSet::MarkSpare(const std::vector<std::string>& addresses) {
  for (RunnerView& view : views_) {
    const bool is_spare =
        std::find(addresses.begin(), addresses.end(), view.address) != addresses.end();
    if (is_spare != view.is_spare) {
      LOG_INFO("runner {} {}", view.address,
               is_spare ? "is to be emptied: fewer runners are wanted" : "is wanted again");
    }
    view.is_spare = is_spare;
  }
}

void RunnerSet::Advise(int64_t now_ns) {
  ScaleOptions scale = options_.scale;
  std::vector<std::string> names;
  std::vector<uint8_t> is_open;
  double slowest_seconds = 0.0;
  for (const RunnerView& view : views_) {
    names.push_back(view.address);
    is_open.push_back(view.is_up && !view.draining ? 1 : 0);
    // One that is away will take as long again.
    slowest_seconds = std::max(slowest_seconds, static_cast<double>(view.startup_ms) * 1e-3);
  }
  if (scale.startup_seconds <= 0.0) {
    scale.startup_seconds = slowest_seconds > 0.0 ? slowest_seconds : kStartupSeconds;
  }
  const Fleet& fleet = chooser_.fleet();
  const int64_t num_waiting = std::ssize(waiting_) + waiting_elsewhere_;
  const int32_t num_open = NumOpen(fleet);
  const double filled =
      RunnersFilled(fleet, num_waiting, scale.batch_share, options_.placement.costs);
  advisor_.Observe(filled, CountKnown(), scale, now_ns);
  hint_ = {.runners = num_open,
           .runners_wanted = advisor_.wanted(),
           .startup_seconds = scale.startup_seconds,
           .consolidates = options_.consolidates};
  for (const size_t runner : RunnersToSpare(names, is_open, hint_.runners_wanted)) {
    hint_.spare.push_back(names[runner]);
  }
  if (options_.consolidates && !options_.addresses_come_later) MarkSpare(hint_.spare);
}

void RunnerSet::EmptySpare() {
  for (size_t i = 0; i < views_.size(); ++i) {
    const RunnerView& view = views_[i];
    if (view.is_spare && view.is_up && !view.draining && view.num_in_flight > 0) Empty(i);
  }
}

// What is moved next is what has the least to be computed anew.
void RunnerSet::Empty(size_t runner) {
  std::vector<std::pair<int64_t, InFlight*>> there;
  for (const auto& [number, one] : by_number_) {
    if (one->runner != runner || one->is_cancelled) continue;
    there.emplace_back(one->request.prompt_tokens.size() + one->request.output_tokens.size(), one);
  }
  std::sort(there.begin(), there.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->number) < std::pair(b.first, b.second->number);
  });
  std::vector<MovableRequest> movable;
  for (const auto& [tokens, one] : there) {
    const auto num_drawn = static_cast<int64_t>(one->request.output_tokens.size());
    movable.push_back({tokens, one->request.sampling.tokens_max - num_drawn, one->placed.rank});
  }
  std::vector<uint8_t> is_target;
  for (const RunnerView& view : views_) is_target.push_back(view.is_spare ? 0 : 1);
  const CostModel& costs = options_.placement.costs;
  if (!IsWorthEmptying(chooser_.fleet(), runner, movable, is_target, costs)) return;
  int64_t tokens_left = kMovedTokensMax;
  int32_t num_moved = 0;
  for (size_t i = 0; i < there.size() && tokens_left > 0; ++i) {
    InFlight& one = *there[i].second;
    if (!IsWorthMoving(chooser_.fleet(), runner, movable[i], costs)) continue;
    PlacementNeeds needs = NeedsOf(one);
    needs.refused = {&runner, 1};
    std::vector<uint8_t> can = WhoCanTake(views_, needs);
    chooser_.KeepWithRoom(views_, one.placed, &can);
    if (!MoveTo(one, can)) continue;
    metrics_.Moved(FrontendMetrics::Move::kSpare);
    tokens_left -= movable[i].tokens;
    ++num_moved;
  }
  if (num_moved > 0) {
    LOG_INFO("{} requests of runner {}, which may go, go on elsewhere", num_moved,
             views_[runner].address);
  }
}

// To the best of those that are allowed; false: there is none.
bool RunnerSet::MoveTo(InFlight& one, std::span<const uint8_t> allowed) {
  const int32_t picked = chooser_.Pick(views_, allowed, one.placed, NowNs());
  if (picked == kNoRunner) return false;
  links_[one.runner]->Cancel(one.number);
  LeaveRunner(one);
  Retry(one);
  PlaceOn(one, static_cast<size_t>(picked));
  return true;
}

}  // namespace graft
