// Where a RunnerSet's requests go: from the line to a runner, and from one runner to another.
#include <algorithm>
#include <string>

#include "base/log.h"
#include "cluster/runner_set.h"

namespace graft {
namespace {

// Waiting requests that are looked at in one tick. One for which a runner is picked counts as many:
// 64 of these at most.
constexpr int32_t kLooksPerTick = 1024;
constexpr int32_t kLooksOfAPick = 16;
constexpr size_t kDigitsTold = 12;  // of a content's hash

}  // namespace

// Puts it on a runner, or it waits. Where the policy keeps order, it passes no older one in line.
// Returns whether the policy was asked for a runner.
bool RunnerSet::Place(InFlight& one) {
  requests_.LeaveLine(one);
  std::vector<uint8_t> can = WhichCanTake(runners_.all(), NeedsOf(one));
  const bool keeps_order = chooser_.keeps_order();
  const bool any_can = AnyCan(can);
  const bool is_next = any_can && (!keeps_order || requests_.GoesFirst(one));
  if (is_next) {
    chooser_.LeaveSpareOut(runners_.all(), one.placed, &can);
    const int32_t picked = chooser_.Pick(runners_.all(), can, one.placed, NowNs());
    if (picked != kNoRunner) {
      PlaceOn(one, static_cast<size_t>(picked));
      return true;
    }
  }
  requests_.Wait(one, NowNs());
  if (keeps_order && any_can) requests_.EnterLine(one);
  return is_next;
}

void RunnerSet::PlaceOn(InFlight& one, size_t runner) {
  requests_.PutOn(one, runner);
  one.request.id = {world_.frontend, one.number};
  one.request.age_ns = NowNs() - one.accepted_ns;
  RemoteRunner& its = runners_[runner];
  its.Enter(one.TokensMax());
  one.placed.prompt_tokens = static_cast<int32_t>(one.NumTokens());
  one.placed.cached_tokens = chooser_.CachedTokensOn(runner, one.placed);
  metrics_.Placed(its.address, MeetsOn(one));
  chooser_.OnPlaced(runner, one.placed);
  its.link->Submit(one.request);
}

FrontendMetrics::Meets RunnerSet::MeetsOn(const InFlight& one) const {
  if (one.request.adapters.empty()) return FrontendMetrics::Meets::kBase;
  return chooser_.Holds(one.runner, one.placed) ? FrontendMetrics::Meets::kResident
                                                : FrontendMetrics::Meets::kCold;
}

// What its runner still says of it is not heard.
void RunnerSet::TakeOff(InFlight& one) {
  if (!one.IsOnRunner()) return;
  runners_[one.runner].Leave();
  chooser_.OnLeft(one.runner, one.placed, one.has_drawn_here);
  requests_.TakeOff(one);
}

// Oldest first. All that wait have their turn in a round, which takes several ticks where they are
// many: those that every runner refuses hold up no others. A late request ends only in its turn,
// since a runner may be open for it by then.
void RunnerSet::PlaceWaiting(int64_t now_ns) {
  PlaceLine();
  int32_t looks_left = kLooksPerTick;
  for (auto next = requests_.waiting().begin(); next != requests_.waiting().end();) {
    InFlight& one = **next++;
    if (looks_left > 0 && one.round != round_) {
      one.round = round_;
      one.AskAgain(now_ns);
      looks_left -= Place(one) ? kLooksOfAPick : 1;
      EndIfLate(one, now_ns);
    }
  }
  if (looks_left > 0) ++round_;
}

// For room it waits without a limit.
void RunnerSet::EndIfLate(InFlight& one, int64_t now_ns) {
  if (one.IsOnRunner() || one.waiting_since_ns == 0) return;
  if (now_ns - one.waiting_since_ns < options_.runner_wait_ns) return;
  if (requests_.line().contains(&one)) return;
  End(one, FailedEvent(WhyItWaited(one)));
}

// A runner has room again: the requests that were held up go on at once.
void RunnerSet::PlaceLine() {
  while (!requests_.line().empty()) {
    InFlight* const first = *requests_.line().begin();
    first->AskAgain(NowNs());
    Place(*first);
    if (!first->IsOnRunner()) return;
  }
}

Status RunnerSet::WhyItWaited(const InFlight& one) const {
  if (!one.pool.empty() && !runners_.AnyHas(one.pool, {})) {
    return UnavailableError("no runner that is up computes as the one did that began the answer (" +
                            one.pool + ")");
  }
  const std::vector<AdapterUse>& adapters = one.request.adapters;
  const auto missing = std::find_if(adapters.begin(), adapters.end(), [&](const AdapterUse& use) {
    return IsMissing(use.hash, one.pool);
  });
  if (missing != adapters.end()) {
    return UnavailableError("the adapter's content (" + missing->hash.substr(0, kDigitsTold) +
                            ") was replaced or taken away since the request began, and no runner "
                            "has it that could go on (the log says where it was looked for)");
  }
  if (runners_.AnyHas(one.pool, adapters)) {
    return UnavailableError("no runner has taken the request" +
                            (one.last_refusal.empty() ? "" : ": " + one.last_refusal));
  }
  return UnavailableError(
      "no runner that is up has loaded the adapter: their logs say why (try again later)");
}

// To the best of those that are allowed; false: there is none.
bool RunnerSet::MoveTo(InFlight& one, std::span<const uint8_t> allowed) {
  const int32_t picked = chooser_.Pick(runners_.all(), allowed, one.placed, NowNs());
  if (picked == kNoRunner) return false;
  runners_[one.runner].link->Cancel(one.number);
  TakeOff(one);
  one.AskAgain(NowNs());
  PlaceOn(one, static_cast<size_t>(picked));
  return true;
}

bool RunnerSet::CanMove(const InFlight& one) const {
  PlacementNeeds needs = NeedsOf(one);
  needs.refused = {};
  return AnyCan(WhichCanTake(runners_.all(), needs));
}

// Counts the death of a runner in a step that held the request; true: that was one too many.
bool RunnerSet::IsGivenUp(InFlight& one) const {
  ++one.num_deaths;
  one.request.runs_alone = one.num_deaths >= options_.deaths_max;
  return one.num_deaths > options_.deaths_max;
}

// `left`: the runner has gone, and all of its requests leave it. Else it drains, and those leave
// that another runner can go on with.
void RunnerSet::MoveAway(size_t runner, bool left, bool died) {
  int32_t num_moved = 0;
  for (InFlight* const one : requests_.AllOn(runner)) {
    if (!left && (one->is_cancelled || !CanMove(*one))) continue;
    if (!left) runners_[runner].link->Cancel(one->number);
    const bool may_have_killed =
        died && !one->has_drawn_here && runners_[runner].MayHoldInStep(one->number);
    TakeOff(*one);
    if (one->is_cancelled) {
      End(*one, {.finish_reason = FinishReason::kCancelled});
      continue;
    }
    if (may_have_killed && IsGivenUp(*one)) {
      LOG_ERROR("a request is given up after {} runners died that had it", one->num_deaths);
      End(*one, FailedEvent(InternalError(std::to_string(one->num_deaths) +
                                          " runners died in steps with this request, the last "
                                          "one while it was alone; it is given up")));
      continue;
    }
    ++num_moved;
    metrics_.Moved(died ? FrontendMetrics::Move::kDied : FrontendMetrics::Move::kDrained);
    one->waiting_since_ns = 0;  // a runner had taken it
    one->AskAgain(NowNs());
    Place(*one);
  }
  if (num_moved > 0) {
    LOG_INFO("{} requests of runner {} go on elsewhere", num_moved, runners_[runner].address);
  }
}

}  // namespace graft
