#include "sim/cluster_simulation.h"

#include <utility>

#include "base/check.h"
#include "base/milliseconds.h"
#include "base/prefix_hash.h"
#include "base/random.h"

namespace graft {
namespace {

constexpr int64_t kPlanEveryNs = 1'000'000'000;
constexpr int64_t kProgressEvery = 1024;
// What tokens of prompts that begin like no other are drawn of.
constexpr uint64_t kOwnPrompts = 7;

// After the last request came: what has not ended by then never will.
constexpr int64_t kGiveUpNs = 1'000'000 * int64_t{1'000'000'000};

std::vector<std::unique_ptr<SimFrontend>> FrontendsOf(const SimClusterOptions& options) {
  CHECK_GT(options.num_frontends, 0);
  const bool is_plain =
      options.num_frontends == 1 && options.view_ms <= 0.0 && options.failures.every_seconds <= 0.0;
  CHECK(is_plain || !options.scaling.is_on) << "who scales knows all at once";
  std::vector<std::unique_ptr<SimFrontend>> frontends;
  for (int32_t i = 0; i < options.num_frontends; ++i) {
    frontends.push_back(std::make_unique<SimFrontend>(options.placement, options.runner,
                                                      static_cast<size_t>(options.num_runners)));
  }
  return frontends;
}

}  // namespace

ClusterSimulation::ClusterSimulation(const SimWorkload& workload, const SimClusterOptions& options)
    : workload_(workload),
      options_(options),
      frontends_(FrontendsOf(options)),
      fleet_(frontends_[0]->fleet()),
      scaling_(options.scaling, options.placement.costs, fleet_),
      fetches_(options.placement.seed),
      failures_(options.placement.seed + 1),
      runners_(fleet_.num_runners()),
      num_equipped_(runners_.size()),
      num_requests_(runners_.size()),
      busy_since_ns_(runners_.size()),
      on_(runners_.size()),
      flights_(workload.requests.size()) {
  CHECK(options.runner.loader.host_adapters == 0 || !workload.fetch_ms.empty())
      << "fetches take a time";
  if (options.machine_runners > 1) {
    const int32_t count =
        (options.num_runners + options.machine_runners - 1) / options.machine_runners;
    for (int32_t i = 0; i < count; ++i) machines_.push_back(std::make_unique<SimMachine>());
  }
  for (size_t i = 0; i < runners_.size(); ++i) Equip(i);
  result_.outcomes.resize(workload.requests.size());
  result_.runners.resize(runners_.size());
}

SimResult ClusterSimulation::Run() {
  const int64_t total = std::ssize(workload_.requests);
  if (total > 0) {
    time_.At(ArrivalNs(0), SimEventKind::kArrival, 0);
    time_.At(0, SimEventKind::kPlan, 0);
    if (scaling_.is_on()) time_.At(0, SimEventKind::kScale, 0);
    if (options_.failures.every_seconds > 0.0) AskForFailure();
    for (int64_t i = 0; i < std::ssize(frontends_) && !knows_at_once(); ++i) {
      const double first_ms = options_.view_ms * static_cast<double>(i) / options_.num_frontends;
      time_.At(MsToNs(first_ms), SimEventKind::kLook, i);
    }
  }
  while (num_ended_ < total) {
    CHECK(!time_.empty() && time_.now_ns() < workload_.requests.back().arrival_ns + kGiveUpNs)
        << "requests that nothing will end";
    OnEvent(time_.Next());
  }
  result_.end_ns = time_.now_ns();
  for (size_t i = 0; i < runners_.size(); ++i) {
    if (runners_[i] == nullptr) continue;
    const Status sound = runners_[i]->CheckIntegrity();
    CHECK(sound.ok()) << sound.ToString();
    Collect(i);
  }
  result_.paid_seconds = scaling_.PaidSeconds(time_.now_ns());
  result_.starts = scaling_.num_starts();
  result_.paid_max = scaling_.num_paid_max();
  return std::move(result_);
}

void ClusterSimulation::OnEvent(const SimEvent& event) {
  switch (event.kind) {
    case SimEventKind::kArrival:
      return OnArrival(event.target);
    case SimEventKind::kPlan:
      return Plan();
    case SimEventKind::kStepEnd:
    case SimEventKind::kLoads:
      return OnRunner(event);
    case SimEventKind::kLook:
      return OnLook(event.target);
    case SimEventKind::kScale:
      return Scale();
    case SimEventKind::kStarted:
      return OnStarted(event.target);
    case SimEventKind::kEmpty:
      return EmptyGoing();
    case SimEventKind::kFail:
      return FailOne();
    case SimEventKind::kReturn:
      return Return(static_cast<size_t>(event.target));
    case SimEventKind::kRecover:
      return Recover(event.target);
  }
}

int64_t ClusterSimulation::ArrivalNs(int64_t request) const {
  return workload_.requests[static_cast<size_t>(request)].arrival_ns +
         MsToNs(options_.runner.costs.served.first_token_ms);
}

SimFrontend& ClusterSimulation::FrontendOf(int64_t request) {
  const uint64_t bits = RandomBits(options_.placement.seed, static_cast<uint64_t>(request));
  return *frontends_[bits % frontends_.size()];
}

// Without a prefix cache prompts are not looked at, and repeat one token.
std::vector<int32_t> ClusterSimulation::PromptOf(int64_t request) const {
  const SimRequest& asked = workload_.requests[static_cast<size_t>(request)];
  std::vector<int32_t> tokens(static_cast<size_t>(asked.prompt_tokens), kSimToken);
  if (!options_.runner.engine.scheduler.prefix_cache) return tokens;
  const int32_t num_shared = asked.prefix < 0 ? 0 : asked.prefix_tokens;
  const uint64_t own = RandomBits(kOwnPrompts, static_cast<uint64_t>(request));
  const uint64_t shared =
      RandomBits(static_cast<uint64_t>(asked.adapter) + 1, static_cast<uint64_t>(asked.prefix) + 1);
  for (int32_t i = 0; i < asked.prompt_tokens; ++i) {
    const uint64_t bits = RandomBits(i < num_shared ? shared : own, static_cast<uint64_t>(i));
    tokens[static_cast<size_t>(i)] = static_cast<int32_t>(bits % kSimVocabSize);
  }
  return tokens;
}

Request ClusterSimulation::MakeRequest(int64_t request) const {
  const SimRequest& asked = workload_.requests[static_cast<size_t>(request)];
  Request made;
  const Flight& flight = flights_[static_cast<size_t>(request)];
  made.id = {static_cast<uint64_t>(flight.num_moves), static_cast<uint64_t>(request) + 1};
  if (asked.adapter != kBaseModel) made.UseAdapter(SimAdapters::HashOf(asked.adapter));
  made.prompt_tokens = PromptOf(request);
  made.output_tokens.assign(static_cast<size_t>(flight.num_drawn), kSimToken);
  made.sampling.tokens_max = asked.output_tokens;
  made.sampling.ignore_eos = true;
  return made;
}

void ClusterSimulation::OnArrival(int64_t request) {
  const auto idx = static_cast<size_t>(request);
  const SimRequest& asked = workload_.requests[idx];
  if (idx + 1 < workload_.requests.size()) {
    time_.At(ArrivalNs(request + 1), SimEventKind::kArrival, request + 1);
  }
  PlacedRequest& placed = flights_[idx].placed;
  placed.adapter = asked.adapter;
  placed.adapter_id = RandomBits(options_.placement.seed, static_cast<uint64_t>(asked.adapter));
  placed.rank = asked.adapter == kBaseModel ? 0 : workload_.adapters.RankOf(asked.adapter);
  placed.prompt_tokens = asked.prompt_tokens;
  placed.output_tokens_max = workload_.output_tokens_told;
  SimFrontend& frontend = FrontendOf(request);
  if (options_.runner.engine.scheduler.prefix_cache && frontend.reads_prefixes()) {
    const int32_t page_tokens = options_.runner.limits.page_tokens;
    const std::string hash = asked.adapter == kBaseModel ? "" : SimAdapters::HashOf(asked.adapter);
    placed.prefix = PrefixNames(EmptyPrefixName("", hash, 0, page_tokens), PromptOf(request),
                                page_tokens, kPrefixPagesMax);
  }
  frontend.Arrive(placed, time_.now_ns());
  if (frontend.line().empty() && Place(request)) return;
  ++result_.waited_in_line;
  frontend.line().insert(request);
}

bool ClusterSimulation::Place(int64_t request) {
  const PlacedRequest& placed = flights_[static_cast<size_t>(request)].placed;
  const int32_t picked = FrontendOf(request).Pick({.request = placed, .now_ns = time_.now_ns()});
  if (picked == kNoRunner) return false;
  Send(request, static_cast<size_t>(picked));
  return true;
}

void ClusterSimulation::Send(int64_t request, size_t runner) {
  Flight& flight = flights_[static_cast<size_t>(request)];
  if (num_requests_[runner]++ == 0) busy_since_ns_[runner] = time_.now_ns();
  flight.placed.prompt_tokens =
      workload_.requests[static_cast<size_t>(request)].prompt_tokens + flight.num_drawn;
  flight.has_drawn_here = false;
  flight.placed.cached_tokens = FrontendOf(request).fleet().CachedTokensOn(runner, flight.placed);
  FrontendOf(request).Place(runner, flight.placed);
  if (scaling_.is_on() || options_.failures.every_seconds > 0.0) on_[runner].insert(request);
  if (flight.num_moves == 0) ++result_.runners[runner].requests;
  result_.outcomes[static_cast<size_t>(request)].runner = static_cast<int32_t>(runner);
  // Whatever a former runner still says goes to the former stream.
  flight.stream = std::make_shared<TokenStream>();
  flight.stream->SetReadyCallback([this, request] { ready_.push_back(request); });
  const Status status = runners_[runner]->Submit(MakeRequest(request), flight.stream);
  if (!status.ok()) {
    result_.outcomes[static_cast<size_t>(request)].is_refused = true;
    End(request);
  }
  if (knows_at_once()) {
    for (const auto& frontend : frontends_) Look(*frontend, runner);
  }
  ReadStreams();
}

void ClusterSimulation::PlaceLines() {
  for (const auto& frontend : frontends_) {
    std::set<int64_t>& line = frontend->line();
    while (!line.empty() && Place(*line.begin())) line.erase(line.begin());
  }
}

void ClusterSimulation::OnRunner(const SimEvent& event) {
  const auto idx = static_cast<size_t>(event.target) % runners_.size();
  SimRunner* const runner = runners_[idx].get();
  if (runner == nullptr || runner->number() != event.target) return;  // it died meanwhile
  if (event.kind == SimEventKind::kStepEnd) {
    if (!runner->OnStepEnd()) return;
    for (const auto& frontend : frontends_) frontend->OnStepEnd(idx);
  } else {
    runner->OnLoads();
  }
  if (knows_at_once()) {
    for (const auto& frontend : frontends_) Look(*frontend, idx);
  }
  ReadStreams();
  PlaceLines();
}

// What the runner would tell of itself.
void ClusterSimulation::Look(SimFrontend& frontend, size_t runner) {
  const EngineSnapshot now = runners_[runner]->Snapshot();
  frontend.Look(runner, num_requests_[runner],
                now.pages_free + now.pages_cached + now.pages_adapters_idle);
}

void ClusterSimulation::OnLook(int64_t frontend) {
  for (size_t i = 0; i < runners_.size(); ++i) {
    if (runners_[i] != nullptr) Look(*frontends_[static_cast<size_t>(frontend)], i);
  }
  time_.At(time_.now_ns() + MsToNs(options_.view_ms), SimEventKind::kLook, frontend);
}

void ClusterSimulation::ReadStreams() {
  for (const int64_t request : std::exchange(ready_, {})) Read(request);
}

void ClusterSimulation::Read(int64_t request) {
  Flight& flight = flights_[static_cast<size_t>(request)];
  SimOutcome& outcome = result_.outcomes[static_cast<size_t>(request)];
  if (flight.stream == nullptr) return;  // a runner that it had left spoke of it after its end
  while (const std::optional<TokenEvent> event = flight.stream->TryPop()) {
    if (event->token >= 0) {
      if (flight.num_drawn++ == 0) outcome.first_ns = time_.now_ns();
      if (!std::exchange(flight.has_drawn_here, true)) {
        FrontendOf(request).fleet().Draw(static_cast<size_t>(outcome.runner), flight.placed);
      }
    }
    if (event->finish_reason == FinishReason::kNone) continue;
    outcome.is_refused = event->finish_reason == FinishReason::kError;
    return End(request);
  }
}

void ClusterSimulation::Leave(int64_t request) {
  const Flight& flight = flights_[static_cast<size_t>(request)];
  const auto idx = static_cast<size_t>(result_.outcomes[static_cast<size_t>(request)].runner);
  FrontendOf(request).Leave(idx, flight.placed, flight.has_drawn_here);
  on_[idx].erase(request);
  if (--num_requests_[idx] == 0) {
    result_.runners[idx].busy_seconds += NsToSeconds(time_.now_ns() - busy_since_ns_[idx]);
  }
}

void ClusterSimulation::End(int64_t request) {
  Flight& flight = flights_[static_cast<size_t>(request)];
  SimOutcome& outcome = result_.outcomes[static_cast<size_t>(request)];
  outcome.end_ns = time_.now_ns();
  Leave(request);
  if (!outcome.is_refused) {
    const int64_t arrival_ns = workload_.requests[static_cast<size_t>(request)].arrival_ns;
    FrontendOf(request).fleet().End(NsToSeconds(outcome.end_ns - arrival_ns), flight.num_drawn);
  }
  flight.stream.reset();
  ++num_ended_;
  if (options_.on_progress && num_ended_ % kProgressEvery == 0) {
    options_.on_progress(num_ended_, std::ssize(workload_.requests));
  }
}

void ClusterSimulation::Plan() {
  for (size_t i = 0; i < runners_.size(); ++i) {
    if (runners_[i] == nullptr) continue;
    const std::vector<int32_t> held = runners_[i]->OnDevice();
    const std::vector<int32_t> coming = runners_[i]->Coming();
    for (const auto& frontend : frontends_) {
      frontend->fleet().SetHeld(i, held, /*is_whole=*/true, coming);
      if (!options_.runner.engine.scheduler.prefix_cache || !frontend->reads_prefixes()) continue;
      frontend->fleet().prefixes().Set(i, runners_[i]->ReadPrefixes());
    }
  }
  for (const auto& frontend : frontends_) frontend->Plan();
  time_.At(time_.now_ns() + kPlanEveryNs, SimEventKind::kPlan, 0);
}

}  // namespace graft
