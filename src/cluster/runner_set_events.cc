// What a RunnerSet hears from its runners.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cluster/runner_set.h"

namespace graft {
namespace {

// A request that has drawn asks a runner that cannot use its adapter again after as long as it has
// waited, within these bounds.
constexpr int64_t kAskLackingMinNs = RunnerSet::kTickNs;
constexpr int64_t kAskLackingMaxNs = 2'000'000'000;

// The adapter's content is not there, or its folder has another by now, or is damaged or closed to
// the runner: not so everywhere.
bool IsForAdapter(const Status& refusal) {
  switch (refusal.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kDataLoss:
    case StatusCode::kPermissionDenied:
    case StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

}  // namespace

Status RunnerSet::OnUp(size_t runner, RunnerFacts facts) {
  std::lock_guard lock(mutex_);
  if (runners_[runner].is_ending) return UnavailableError("it is not listed any more");
  if (weights_hash_.empty()) weights_hash_ = facts.base.weights_hash;
  RETURN_IF_ERROR(
      CheckSameBase({.name = options_.base.name, .weights_hash = weights_hash_}, facts.base));
  RemoteRunner& its = runners_[runner];
  if (its.is_up) LoseRunner(runner);  // its link has not said that it was down
  const std::vector<ListedAdapter> adapters = std::move(facts.adapters);
  its.ComeUp(std::move(facts));
  chooser_.Forget(runner);
  SetAdapters(runner, adapters);
  LOG_INFO("runner {} is up: {}, {} adapters", its.address, its.facts.arithmetic_id,
           its.adapters.size());
  metrics_.SetRunner(its);
  PlaceWaiting(NowNs());
  return OkStatus();
}

void RunnerSet::OnAdapters(size_t runner, std::vector<ListedAdapter> adapters) {
  std::lock_guard lock(mutex_);
  SetAdapters(runner, adapters);
  PlaceWaiting(NowNs());
}

void RunnerSet::SetAdapters(size_t runner, const std::vector<ListedAdapter>& adapters) {
  RemoteRunner& its = runners_[runner];
  its.adapters.clear();
  std::vector<std::string> resident, loading;
  for (const ListedAdapter& adapter : adapters) {
    its.adapters.insert(adapter.info.hash);
    if (adapter.state == AdapterState::kResident) resident.push_back(adapter.info.hash);
    if (adapter.state == AdapterState::kLoading) loading.push_back(adapter.info.hash);
  }
  chooser_.SetResident(runner, resident, /*is_whole=*/false, loading);
  catalog_.SetRunner(runner, adapters);
  requests_.ForgetLacking(runner);
}

void RunnerSet::OnState(size_t runner, const RunnerLoad& load, bool draining) {
  std::lock_guard lock(mutex_);
  if (!load.prefixes.empty()) chooser_.SetPrefixes(runner, load.prefixes);
  if (load.held.has_value()) {
    chooser_.SetResident(runner, load.held->resident, load.held->is_whole, load.held->loading);
  }
  RemoteRunner& its = runners_[runner];
  const bool begins_to_drain = its.Hear(load, draining);
  metrics_.SetRunner(its);
  if (!begins_to_drain) return;
  LOG_INFO("runner {} drains", its.address);
  MoveAway(runner, /*left=*/false, /*died=*/false);
}

void RunnerSet::OnStep(size_t runner, std::vector<uint64_t> undrawn) {
  std::lock_guard lock(mutex_);
  runners_[runner].undrawn_in_step = {undrawn.begin(), undrawn.end()};
}

void RunnerSet::OnEvents(size_t runner, uint64_t number, std::vector<TokenEvent> events) {
  std::lock_guard lock(mutex_);
  for (TokenEvent& event : events) {
    InFlight* const one = requests_.FindOn(runner, number);
    if (one == nullptr) return;
    TakeEvent(*one, std::move(event));
  }
  PlaceLine();
}

void RunnerSet::TakeEvent(InFlight& one, TokenEvent event) {
  const bool is_lost = event.finish_reason == FinishReason::kCancelled && !one.is_cancelled;
  if (is_lost || IsRefusal(one, event)) return TakeRefusal(one, event.status);
  if (event.token >= 0) {
    if (!one.has_drawn_here) chooser_.OnFirstToken(one.runner, one.placed);
    requests_.Draw(one, event.token);
    one.pool = runners_[one.runner].facts.arithmetic_id;
    CountToken(one);
  }
  if (event.finish_reason != FinishReason::kNone) return End(one, std::move(event));
  one.stream->Push(std::move(event));
}

// The runner ends, or has no room, or cannot use the adapter.
void RunnerSet::TakeRefusal(InFlight& one, const Status& why) {
  const int64_t now_ns = NowNs();
  one.refused.push_back(one.runner);
  if (IsForAdapter(why)) {
    one.lacking.push_back(one.runner);
    const int64_t waited_ns = one.waiting_since_ns == 0 ? 0 : now_ns - one.waiting_since_ns;
    one.ask_lacking_ns = now_ns + std::clamp(waited_ns, kAskLackingMinNs, kAskLackingMaxNs);
  }
  if (why.code() == StatusCode::kResourceExhausted) one.waiting_since_ns = 0;
  one.last_refusal = why.message();
  TakeOff(one);
  if (one.is_cancelled) return End(one, {.finish_reason = FinishReason::kCancelled});
  metrics_.Moved(FrontendMetrics::Move::kRefused);
  Place(one);
  EndIfLate(one, now_ns);
}

bool RunnerSet::IsRefusal(const InFlight& one, const TokenEvent& event) const {
  if (event.finish_reason != FinishReason::kError || event.token >= 0 || one.has_drawn_here) {
    return false;
  }
  if (IsForAdapter(event.status)) return !one.pool.empty() || AnotherMayHaveIt(one);
  return event.status.code() == StatusCode::kResourceExhausted ||
         event.status.code() == StatusCode::kUnavailable;
}

// Whether another runner may serve a request after its runner could not use the adapter. A
// registered adapter's request waits until some runner can serve it.
bool RunnerSet::AnotherMayHaveIt(const InFlight& one) const {
  PlacementNeeds needs = NeedsOf(one);
  if (needs.adapters.empty()) return false;
  if (std::all_of(needs.adapters.begin(), needs.adapters.end(), [this](const auto& adapter) {
        return registry_.adapters.contains(adapter.hash);
      })) {
    return true;
  }
  needs.refused = one.lacking;
  std::vector<uint8_t> can = WhichCanTake(runners_.all(), needs);
  can[one.runner] = 0;
  return AnyCan(can);
}

void RunnerSet::CountToken(InFlight& one) {
  const int64_t now_ns = NowNs();
  one.counters->output_tokens->Increment();
  if (one.request.output_tokens.size() == 1) {
    metrics_.FirstToken(NsToSeconds(now_ns - one.accepted_ns));
  } else if (one.last_token_ns != 0) {
    metrics_.NextToken(NsToSeconds(now_ns - one.last_token_ns));
  }
  one.last_token_ns = now_ns;
}

// Punica 5.3: the request moves to a runner with room for all that it may draw. If no runner has
// that much, it stays in its runner's line.
void RunnerSet::OnEvicted(size_t runner, uint64_t number) {
  std::lock_guard lock(mutex_);
  InFlight* const one = requests_.FindOn(runner, number);
  if (one == nullptr || one->is_cancelled) return;
  PlacementNeeds needs = NeedsOf(*one);
  needs.refused = {&runner, 1};
  std::vector<uint8_t> can = WhichCanTake(runners_.all(), needs);
  for (size_t i = 0; i < can.size(); ++i) {
    if (!runners_[i].HasPagesFor(one->TokensMax())) can[i] = 0;
  }
  if (!MoveTo(*one, can)) return;
  metrics_.Moved(FrontendMetrics::Move::kEvicted);
  LOG_INFO("a request that runner {} had no pages for goes on at {}", runners_[runner].address,
           runners_[one->runner].address);
}

void RunnerSet::OnDown(size_t runner, const Status& why) {
  std::lock_guard lock(mutex_);
  RemoteRunner& its = runners_[runner];
  // gRPC words one failure in several ways.
  constexpr size_t kTelling = 60;
  const bool is_news =
      its.why_down.message().substr(0, kTelling) != why.message().substr(0, kTelling);
  if (its.is_up || is_news) LOG_WARN("runner {} is down: {}", its.address, why.message());
  its.why_down = why;
  LoseRunner(runner);
  metrics_.SetRunner(its);
}

// With all that it had.
void RunnerSet::LoseRunner(size_t runner) {
  runners_[runner].is_up = false;
  MoveAway(runner, /*left=*/true, /*died=*/!runners_[runner].draining);
}

}  // namespace graft
