#include "cluster/runner_set.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"

namespace graft {
namespace {

constexpr int64_t kPlanEveryNs = 1'000'000'000;
// Requests in line that are offered to runners in one tick.
constexpr size_t kPlacedPerTickMax = 64;
constexpr size_t kDigitsTold = 12;  // of a content's hash

TokenEvent FailedEvent(Status status) {
  return {.finish_reason = FinishReason::kError, .status = std::move(status)};
}

// The adapter's content is not there, or its folder has another by now: not so everywhere.
bool IsForAdapter(const Status& refusal) {
  switch (refusal.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kDataLoss:
    case StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

// Prompt and output, if it goes on to its end.
int64_t TokensMax(const Request& request) {
  return static_cast<int64_t>(request.prompt_tokens.size()) + request.sampling.tokens_max;
}

}  // namespace

Result<std::unique_ptr<RunnerSet>> RunnerSet::Start(const RunnerSetOptions& options,
                                                    const RunnerSetWorld& world) {
  if (options.addresses.empty() && !options.addresses_come_later) {
    return InvalidArgumentError("which runners? --runners HOST:PORT,HOST:PORT");
  }
  std::unique_ptr<RunnerSet> set(new RunnerSet(options, world));
  RETURN_IF_ERROR(set->StartLinks());
  return set;
}

RunnerSet::RunnerSet(const RunnerSetOptions& options, const RunnerSetWorld& world)
    : options_(options),
      world_(world),
      catalog_(options.base.name),
      own_metrics_(options.metrics == nullptr ? std::make_unique<Metrics>() : nullptr),
      metrics_(options.metrics == nullptr ? *own_metrics_ : *options.metrics,
               [this](const std::string& hash) { return LabelOf(hash); }),
      chooser_(options.placement),
      views_(options.addresses.size()),
      limits_of_(options.addresses.size()),
      why_down_(options.addresses.size()),
      weights_hash_(options.base.weights_hash),
      ticked_ns_(world.clock->NowNs()),
      places_(options.limits.requests_max) {
  for (size_t i = 0; i < views_.size(); ++i) views_[i].address = options.addresses[i];
}

Status RunnerSet::StartLinks() {
  std::lock_guard lock(mutex_);  // until all are there, none is heard
  links_.resize(views_.size());
  for (size_t i = 0; i < views_.size(); ++i) RETURN_IF_ERROR(AddLink(i));
  if (world_.has_ticker) ticker_ = std::thread([this] { TickLoop(); });
  return OkStatus();
}

Status RunnerSet::AddLink(size_t runner) {
  ASSIGN_OR_RETURN(links_[runner], world_.start_link({.address = views_[runner].address,
                                                      .tls = options_.tls,
                                                      .base = options_.base,
                                                      .frontend = world_.frontend},
                                                     runner, *this));
  return OkStatus();
}

void RunnerSet::SetRegistry(RegistryFacts registry) {
  std::lock_guard lock(mutex_);
  registry_ = std::move(registry);
}

bool RunnerSet::IsMissing(const std::string& hash, const std::string& pool) const {
  if (registry_.adapters.contains(hash)) return false;
  return std::none_of(views_.begin(), views_.end(), [&](const RunnerView& view) {
    return IsInPool(view, pool) && view.adapters.contains(hash);
  });
}

size_t RunnerSet::num_known() const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(CountKnown());
}

RunnerSet::~RunnerSet() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_.notify_one();
  }
  if (ticker_.joinable()) ticker_.join();
  links_.clear();
}

Status RunnerSet::WhyNoneIsUp() const {
  std::string why = "no runner is up; start one with graft runner";
  for (size_t i = 0; i < views_.size(); ++i) {
    if (views_[i].is_up) return OkStatus();
    if (why_down_[i].ok()) continue;
    why += "; " + views_[i].address + ": " + why_down_[i].message();
  }
  return UnavailableError(why);
}

Status RunnerSet::ready() const {
  std::lock_guard lock(mutex_);
  return WhyNoneIsUp();
}

// What every runner that is up can do.
GeneratorLimits RunnerSet::limits() const {
  std::lock_guard lock(mutex_);
  GeneratorLimits limits = options_.limits;
  for (size_t i = 0; i < views_.size(); ++i) {
    if (!views_[i].is_up) continue;
    limits.context_tokens_max =
        std::min(limits.context_tokens_max, limits_of_[i].context_tokens_max);
    limits.vocab_size = std::min(limits.vocab_size, limits_of_[i].vocab_size);
  }
  return limits;
}

Status RunnerSet::Submit(Request request, std::shared_ptr<TokenStream> stream) {
  RETURN_IF_ERROR(RefuseUnserved(request));
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(WhyNoneIsUp());
  for (const AdapterUse& use : request.adapters) {
    if (catalog_.HasContent(use.hash) || registry_.adapters.contains(use.hash)) continue;
    return NotFoundError("no runner has the adapter any more");
  }
  const auto weight = registry_.tenant_weights.find(request.tenant);
  if (weight != registry_.tenant_weights.end()) request.tenant_weight = weight->second;
  RETURN_IF_ERROR(FindPlace(request));
  auto one = std::make_unique<InFlight>();
  one->id = request.id;
  one->arrival = num_arrivals_++;
  one->accepted_ns = NowNs() - request.age_ns;
  int32_t rank = 0;
  for (const AdapterUse& use : request.adapters) {
    const auto registered = registry_.adapters.find(use.hash);
    const bool is_registered = registered != registry_.adapters.end();
    one->adapter_paths.push_back(is_registered ? registered->second.path : "");
    rank += catalog_.RankOf(use.hash);
  }
  one->placed = chooser_.Arrive(request, rank, NowNs());
  one->counters = metrics_.CountersFor(request.adapter_key(), one->placed.adapter);
  one->counters->requests->Increment();
  one->counters->prompt_tokens->Increment(static_cast<double>(request.prompt_tokens.size()));
  one->request = std::move(request);
  one->stream = std::move(stream);
  InFlight& placed = *one;
  in_flight_[placed.id] = std::move(one);
  EnterPlace(placed);
  Place(placed);
  return OkStatus();
}

void RunnerSet::Cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  const auto it = in_flight_.find(id);
  if (it == in_flight_.end()) return;
  InFlight& one = *it->second;
  one.is_cancelled = true;
  if (one.runner != kNowhere) {
    links_[one.runner]->Cancel(one.number);
  } else {
    End(one, {.finish_reason = FinishReason::kCancelled});
  }
}

PlacementNeeds RunnerSet::NeedsOf(const InFlight& one) const {
  return {.adapters = one.request.adapters, .pool = one.pool, .refused = one.refused};
}

// kNoRunner: the request waits. Where the policy keeps order, it passes no older one in line_.
int32_t RunnerSet::Choose(InFlight& one) {
  line_.erase(&one);
  std::vector<uint8_t> can = WhoCanTake(views_, NeedsOf(one));
  chooser_.LeaveSpareOut(views_, one.placed, &can);
  if (!chooser_.keeps_order()) return chooser_.Pick(views_, can, one.placed, NowNs());
  if (std::find(can.begin(), can.end(), 1) == can.end()) return kNoRunner;
  int32_t picked = kNoRunner;
  if (line_.empty() || IsOlder()(&one, *line_.begin())) {
    picked = chooser_.Pick(views_, can, one.placed, NowNs());
  }
  if (picked == kNoRunner) line_.insert(&one);
  return picked;
}

// Puts it on a runner, or in line.
void RunnerSet::Place(InFlight& one) {
  const int32_t picked = Choose(one);
  if (picked == kNoRunner) {
    if (waiting_.insert(&one).second) one.waiting_since_ns = NowNs();
    return;
  }
  PlaceOn(one, static_cast<size_t>(picked));
}

void RunnerSet::PlaceOn(InFlight& one, size_t runner) {
  waiting_.erase(&one);
  line_.erase(&one);
  one.runner = runner;
  one.number = next_number_++;
  one.has_drawn_here = false;
  one.request.id = {world_.frontend, one.number};
  one.request.age_ns = NowNs() - one.accepted_ns;
  by_number_[one.number] = &one;
  RunnerView& view = views_[runner];
  ++view.num_sent;
  ++view.num_in_flight;
  view.pages_sent += PagesOf(view, TokensMax(one.request));
  one.placed.prompt_tokens =
      static_cast<int32_t>(one.request.prompt_tokens.size() + one.request.output_tokens.size());
  one.placed.cached_tokens = chooser_.CachedTokensOn(runner, one.placed);
  CountPlaced(one);
  chooser_.OnPlaced(runner, one.placed);
  links_[one.runner]->Submit(one.request);
}

// What its runner still says of it is not heard.
void RunnerSet::LeaveRunner(InFlight& one) {
  if (one.runner == kNowhere) return;
  by_number_.erase(one.number);
  --views_[one.runner].num_in_flight;
  chooser_.OnLeft(one.runner, one.placed, one.has_drawn_here);
  one.runner = kNowhere;
}

void RunnerSet::End(InFlight& one, TokenEvent event, bool gives_place) {
  LeaveRunner(one);
  waiting_.erase(&one);
  line_.erase(&one);
  if (event.finish_reason == FinishReason::kStop || event.finish_reason == FinishReason::kLength) {
    chooser_.OnEnded(NsToSeconds(NowNs() - one.accepted_ns), one.request.output_tokens.size());
  }
  LeavePlace(one, gives_place);
  one.stream->Push(std::move(event));
  const RequestId id = one.id;
  in_flight_.erase(id);
}

void RunnerSet::PlaceWaiting(int64_t now_ns) {
  std::vector<InFlight*> line;
  for (InFlight* const one : waiting_) {
    if (line.size() == kPlacedPerTickMax) break;
    line.push_back(one);
  }
  for (InFlight* const one : line) {
    Retry(*one);
    Place(*one);
    if (one->runner != kNowhere) continue;
    // Requests in line wait for room alone, and without a time limit.
    if (line_.contains(one)) continue;
    if (now_ns - one->waiting_since_ns < options_.runner_wait_ns) continue;
    End(*one, FailedEvent(WhyItWaited(*one)));
  }
}

// A runner has room again: the requests that were held up go on at once.
void RunnerSet::PlaceLine() {
  while (!line_.empty()) {
    InFlight* const first = *line_.begin();
    Retry(*first);
    Place(*first);
    if (first->runner == kNowhere) return;
  }
}

Status RunnerSet::WhyItWaited(const InFlight& one) const {
  const bool has_pool = std::any_of(views_.begin(), views_.end(), [&](const RunnerView& view) {
    return IsInPool(view, one.pool);
  });
  if (!has_pool && !one.pool.empty()) {
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
  const bool somebody_has_it =
      std::any_of(views_.begin(), views_.end(), [&](const RunnerView& view) {
        return IsInPool(view, one.pool) && HasAdapters(view, adapters);
      });
  if (somebody_has_it) {
    return UnavailableError("no runner has taken the request" +
                            (one.last_refusal.empty() ? "" : ": " + one.last_refusal));
  }
  return UnavailableError(
      "no runner that is up has loaded the adapter: their logs say why (try again later)");
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
  std::vector<uint8_t> can = WhoCanTake(views_, needs);
  can[one.runner] = 0;
  return std::find(can.begin(), can.end(), 1) != can.end();
}

void RunnerSet::TakeEvent(InFlight& one, TokenEvent event) {
  const bool is_lost = event.finish_reason == FinishReason::kCancelled && !one.is_cancelled;
  if (is_lost || IsRefusal(one, event)) {  // the runner ends, or has no room
    one.refused.push_back(one.runner);
    if (IsForAdapter(event.status) && one.pool.empty()) one.lacking.push_back(one.runner);
    one.last_refusal = event.status.message();
    LeaveRunner(one);
    if (one.is_cancelled) return End(one, {.finish_reason = FinishReason::kCancelled});
    metrics_.Moved(FrontendMetrics::Move::kRefused);
    return Place(one);
  }
  if (event.token >= 0) {
    if (one.request.output_tokens.empty()) NoteDrawn(one);
    one.request.output_tokens.push_back(event.token);
    CountToken(one);
    if (!one.has_drawn_here) chooser_.OnFirstToken(one.runner, one.placed);
    one.has_drawn_here = true;
    one.pool = views_[one.runner].arithmetic_id;
  }
  if (event.finish_reason != FinishReason::kNone) return End(one, std::move(event));
  one.stream->Push(std::move(event));
}

bool RunnerSet::CanMove(const InFlight& one) const {
  PlacementNeeds needs = NeedsOf(one);
  needs.refused = {};
  const std::vector<uint8_t> can = WhoCanTake(views_, needs);
  return std::find(can.begin(), can.end(), 1) != can.end();
}

// A runner that does not say what its steps hold may have died of all that it had.
bool RunnerSet::MayHaveKilled(const InFlight& one) const {
  if (one.has_drawn_here) return false;
  const RunnerView& view = views_[one.runner];
  return !view.tells_steps || view.undrawn_in_step.contains(one.number);
}

// Counts the death of a runner in a step that held the request; true: that was one too many.
bool RunnerSet::IsGivenUp(InFlight& one) {
  ++one.num_deaths;
  one.request.runs_alone = one.num_deaths >= options_.deaths_max;
  return one.num_deaths > options_.deaths_max;
}

// `left`: the runner has gone, and all of its requests leave it. Else it drains, and those leave
// that another runner can go on with.
void RunnerSet::MoveAway(size_t runner, bool left, bool died) {
  std::vector<InFlight*> moving;
  for (const auto& [number, one] : by_number_) {
    if (one->runner == runner) moving.push_back(one);
  }
  std::sort(moving.begin(), moving.end(), IsOlder());
  int32_t num_moved = 0;
  for (InFlight* const one : moving) {
    if (!left && (one->is_cancelled || !CanMove(*one))) continue;
    if (!left) links_[runner]->Cancel(one->number);
    const bool may_have_killed = died && MayHaveKilled(*one);
    LeaveRunner(*one);
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
    Retry(*one);
    Place(*one);
  }
  if (num_moved > 0)
    LOG_INFO("{} requests of runner {} go on elsewhere", num_moved, views_[runner].address);
}

Status RunnerSet::OnUp(size_t runner, RunnerFacts facts) {
  std::lock_guard lock(mutex_);
  if (ending_.contains(runner)) return UnavailableError("it is not listed any more");
  RunnerView& view = views_[runner];
  if (weights_hash_.empty()) weights_hash_ = facts.base.weights_hash;
  RETURN_IF_ERROR(
      CheckSameBase({.name = options_.base.name, .weights_hash = weights_hash_}, facts.base));
  if (view.is_up) LoseRunner(runner);  // its link has not said that it was down
  view.is_up = true;
  view.draining = false;
  view.arithmetic_id = facts.arithmetic_id;
  view.load = {};
  view.num_sent = view.num_in_flight = view.pages_sent = 0;
  view.page_tokens = facts.page_tokens;
  view.batch_max = facts.batch_max;
  view.adapters_max = facts.adapters_max;
  view.num_pages = facts.num_pages;
  view.startup_ms = facts.startup_ms;
  view.instance = facts.instance;
  view.has_prefix_cache = facts.has_prefix_cache;
  view.has_told = false;
  chooser_.Forget(runner);
  view.tells_steps = facts.protocol >= kProtocolWithSteps;
  view.undrawn_in_step.clear();
  limits_of_[runner] = facts.limits;
  why_down_[runner] = OkStatus();
  SetAdapters(runner, facts.adapters);
  LOG_INFO("runner {} is up: {}, {} adapters", view.address, view.arithmetic_id,
           view.adapters.size());
  metrics_.SetRunner(view);
  PlaceWaiting(NowNs());
  return OkStatus();
}

void RunnerSet::SetAdapters(size_t runner, const std::vector<ListedAdapter>& adapters) {
  RunnerView& view = views_[runner];
  view.adapters.clear();
  std::vector<std::string> resident, loading;
  for (const ListedAdapter& adapter : adapters) {
    view.adapters.insert(adapter.info.hash);
    if (adapter.state == AdapterState::kResident) resident.push_back(adapter.info.hash);
    if (adapter.state == AdapterState::kLoading) loading.push_back(adapter.info.hash);
  }
  chooser_.SetResident(runner, resident, /*is_whole=*/false, loading);
  catalog_.SetRunner(runner, adapters);
  for (auto& [id, one] : in_flight_) std::erase(one->lacking, runner);
}

void RunnerSet::OnAdapters(size_t runner, std::vector<ListedAdapter> adapters) {
  std::lock_guard lock(mutex_);
  SetAdapters(runner, adapters);
  PlaceWaiting(NowNs());
}

void RunnerSet::OnEvents(size_t runner, uint64_t number, std::vector<TokenEvent> events) {
  std::lock_guard lock(mutex_);
  for (TokenEvent& event : events) {
    InFlight* const one = FindOn(runner, number);
    if (one == nullptr) return;
    TakeEvent(*one, std::move(event));
  }
  PlaceLine();
}

// Null: it was moved, or has ended, since the runner said something of it.
RunnerSet::InFlight* RunnerSet::FindOn(size_t runner, uint64_t number) {
  const auto it = by_number_.find(number);
  return it == by_number_.end() || it->second->runner != runner ? nullptr : it->second;
}

void RunnerSet::OnStep(size_t runner, std::vector<uint64_t> undrawn) {
  std::lock_guard lock(mutex_);
  views_[runner].undrawn_in_step = {undrawn.begin(), undrawn.end()};
}

// Punica 5.3: the request moves to a runner with room for all that it may draw. If no runner has
// that much, it stays in its runner's line.
void RunnerSet::OnEvicted(size_t runner, uint64_t number) {
  std::lock_guard lock(mutex_);
  InFlight* const one = FindOn(runner, number);
  if (one == nullptr || one->is_cancelled) return;
  PlacementNeeds needs = NeedsOf(*one);
  needs.refused = {&runner, 1};
  std::vector<uint8_t> can = WhoCanTake(views_, needs);
  for (size_t i = 0; i < can.size(); ++i) {
    if (!HasPagesFor(views_[i], TokensMax(one->request))) can[i] = 0;
  }
  if (!MoveTo(*one, can)) return;
  metrics_.Moved(FrontendMetrics::Move::kEvicted);
  LOG_INFO("a request that runner {} had no pages for goes on at {}", views_[runner].address,
           views_[one->runner].address);
}

void RunnerSet::OnState(size_t runner, const RunnerLoad& load, bool draining) {
  std::lock_guard lock(mutex_);
  RunnerView& view = views_[runner];
  if (!load.prefixes.empty()) chooser_.SetPrefixes(runner, load.prefixes);
  if (load.held.has_value()) {
    chooser_.SetResident(runner, load.held->resident, load.held->is_whole, load.held->loading);
  }
  view.load = load;
  view.load.prefixes = {};
  view.load.held.reset();
  view.has_told = true;
  view.num_sent = view.pages_sent = 0;
  const bool begins_to_drain = draining && !view.draining;
  view.draining |= draining;
  metrics_.SetRunner(view);
  if (!begins_to_drain) return;
  LOG_INFO("runner {} drains", view.address);
  MoveAway(runner, /*left=*/false, /*died=*/false);
}

void RunnerSet::OnDown(size_t runner, const Status& why) {
  std::lock_guard lock(mutex_);
  RunnerView& view = views_[runner];
  // gRPC words one failure in several ways.
  constexpr size_t kTelling = 60;
  const bool is_news =
      why_down_[runner].message().substr(0, kTelling) != why.message().substr(0, kTelling);
  if (view.is_up || is_news) {
    LOG_WARN("runner {} is down: {}", view.address, why.message());
  }
  why_down_[runner] = why;
  LoseRunner(runner);
  metrics_.SetRunner(view);
}

// With all that it had.
void RunnerSet::LoseRunner(size_t runner) {
  views_[runner].is_up = false;
  MoveAway(runner, /*left=*/true, /*died=*/!views_[runner].draining);
}

void RunnerSet::TickLoop() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, std::chrono::nanoseconds(kTickNs), [this] { return stopping_; })) {
    lock.unlock();
    Tick();
    lock.lock();
  }
}

// If this process was suspended it missed heartbeats: no runner is declared dead for that.
void RunnerSet::Tick() {
  std::unique_lock lock(mutex_);
  const int64_t now_ns = NowNs();
  const bool forgives = now_ns - std::exchange(ticked_ns_, now_ns) > kRunnerSilenceNs / 2;
  for (const auto& link : links_) {
    if (link != nullptr) link->Tick(now_ns, forgives);
  }
  if (now_ns - planned_ns_ >= kPlanEveryNs) {
    planned_ns_ = now_ns;
    chooser_.Plan(views_, now_ns);
    Advise(now_ns);
  }
  PlaceWaiting(now_ns);
  metrics_.SetUnplaced(waiting_.size());
  EmptySpare();
  std::vector<std::unique_ptr<RunnerLink>> dead = TakeDeadLinks();
  if (dead.empty()) return;
  lock.unlock();
  dead.clear();
  lock.lock();
  Forget();
}

}  // namespace graft
