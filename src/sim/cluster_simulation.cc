#include "sim/cluster_simulation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace graft {
namespace {

constexpr int64_t kPlanEveryNs = 1'000'000'000;
constexpr int64_t kProgressEvery = 1024;

Fleet FleetOf(int32_t num_runners) {
  Fleet fleet;
  fleet.SetNumRunners(static_cast<size_t>(num_runners));
  return fleet;
}

}  // namespace

ClusterSimulation::ClusterSimulation(const SimWorkload& workload, const SimClusterOptions& options)
    : workload_(workload),
      options_(options),
      fleet_(FleetOf(options.num_runners)),
      scaling_(options.scaling, options.placement.costs, fleet_),
      policy_(MakePlacementPolicy(options.placement)),
      fetches_(options.placement.seed),
      runners_(fleet_.num_runners()),
      pages_sent_(runners_.size()),
      busy_since_ns_(runners_.size()),
      on_(runners_.size()),
      flights_(workload.requests.size()) {
  CHECK(options.runner.host_adapters == 0 || !workload.fetch_ms.empty()) << "fetches take a time";
  for (size_t i = 0; i < runners_.size(); ++i) Equip(i);
  result_.outcomes.resize(workload.requests.size());
  result_.runners.resize(fleet_.num_runners());
}

SimResult ClusterSimulation::Run() {
  if (!workload_.requests.empty()) {
    time_.At(workload_.requests.front().arrival_ns, SimEventKind::kArrival, 0);
    time_.At(0, SimEventKind::kPlan, 0);
    if (scaling_.is_on()) time_.At(0, SimEventKind::kScale, 0);
  }
  while (!time_.empty() && num_ended_ < std::ssize(workload_.requests)) {
    const SimEvent event = time_.Next();
    switch (event.kind) {
      case SimEventKind::kArrival:
        OnArrival(event.target);
        break;
      case SimEventKind::kPlan:
        Plan();
        break;
      case SimEventKind::kStepEnd:
      case SimEventKind::kLoads:
        OnRunner(event);
        break;
      case SimEventKind::kScale:
        Scale();
        break;
      case SimEventKind::kStarted:
        OnStarted(event.target);
        break;
      case SimEventKind::kEmpty:
        EmptyGoing();
        break;
    }
  }
  CHECK_EQ(num_ended_, std::ssize(workload_.requests)) << "requests that nothing will end";
  result_.end_ns = time_.now_ns();
  for (size_t i = 0; i < runners_.size(); ++i) Collect(i);
  result_.paid_seconds = scaling_.PaidSeconds(time_.now_ns());
  result_.starts = scaling_.num_starts();
  result_.paid_max = scaling_.num_paid_max();
  return std::move(result_);
}

Request ClusterSimulation::MakeRequest(int64_t request) const {
  const SimRequest& asked = workload_.requests[static_cast<size_t>(request)];
  Request made;
  const Flight& flight = flights_[static_cast<size_t>(request)];
  made.id = {static_cast<uint64_t>(flight.num_moves), static_cast<uint64_t>(request) + 1};
  if (asked.adapter != kBaseModel) made.UseAdapter(SimAdapters::HashOf(asked.adapter));
  made.prompt_tokens.assign(static_cast<size_t>(asked.prompt_tokens), kSimToken);
  made.output_tokens.assign(static_cast<size_t>(flight.num_drawn), kSimToken);
  made.sampling.tokens_max = asked.output_tokens;
  made.sampling.ignore_eos = true;
  return made;
}

void ClusterSimulation::OnArrival(int64_t request) {
  const auto idx = static_cast<size_t>(request);
  const SimRequest& asked = workload_.requests[idx];
  if (idx + 1 < workload_.requests.size()) {
    time_.At(workload_.requests[idx + 1].arrival_ns, SimEventKind::kArrival, request + 1);
  }
  PlacedRequest& placed = flights_[idx].placed;
  placed.adapter = asked.adapter;
  placed.adapter_id = RandomBits(options_.placement.seed, static_cast<uint64_t>(asked.adapter));
  placed.rank = asked.adapter == kBaseModel ? 0 : workload_.adapters.RankOf(asked.adapter);
  placed.prompt_tokens = asked.prompt_tokens;
  placed.output_tokens_max = workload_.output_tokens_told;
  policy_->OnArrival(placed);
  fleet_.Arrive(placed.adapter, time_.now_ns());
  if (line_.empty() && Place(request)) return;
  ++result_.waited_in_line;
  line_.push_back(request);
}

bool ClusterSimulation::Place(int64_t request) {
  const PlacedRequest& placed = flights_[static_cast<size_t>(request)].placed;
  const int32_t picked = policy_->Pick(fleet_, {.request = placed, .now_ns = time_.now_ns()});
  if (picked == kNoRunner) return false;
  Send(request, static_cast<size_t>(picked));
  return true;
}

void ClusterSimulation::Send(int64_t request, size_t runner) {
  Flight& flight = flights_[static_cast<size_t>(request)];
  if (fleet_.runner(runner).num_requests++ == 0) busy_since_ns_[runner] = time_.now_ns();
  flight.placed.prompt_tokens =
      workload_.requests[static_cast<size_t>(request)].prompt_tokens + flight.num_drawn;
  flight.has_drawn_here = false;
  fleet_.Place(runner, flight.placed);
  if (scaling_.is_on()) on_[runner].insert(request);
  const int32_t page_tokens = options_.runner.page_tokens;
  pages_sent_[runner] += (flight.placed.prompt_tokens + page_tokens - 1) / page_tokens;
  ++result_.runners[runner].requests;
  result_.outcomes[static_cast<size_t>(request)].runner = static_cast<int32_t>(runner);
  // Whatever a former runner still says goes to the former stream.
  flight.stream = std::make_shared<TokenStream>();
  flight.stream->SetReadyCallback([this, request] { ready_.push_back(request); });
  const Status status = runners_[runner]->Submit(MakeRequest(request), flight.stream);
  if (!status.ok()) {
    result_.outcomes[static_cast<size_t>(request)].is_refused = true;
    End(request);
  }
  Look(runner);
  ReadStreams();
}

void ClusterSimulation::PlaceLine() {
  while (!line_.empty() && Place(line_.front())) line_.pop_front();
}

void ClusterSimulation::OnRunner(const SimEvent& event) {
  const auto idx = static_cast<size_t>(event.target);
  if (event.kind == SimEventKind::kStepEnd) {
    runners_[idx]->OnStepEnd();
    pages_sent_[idx] = 0;  // by now they are in its pool
  } else {
    runners_[idx]->OnLoads();
  }
  Look(idx);
  ReadStreams();
  PlaceLine();
}

// What it would tell of itself.
void ClusterSimulation::Look(size_t runner) {
  const EngineSnapshot now = runners_[runner]->Snapshot();
  const int64_t pages_free = now.pages_free + now.pages_cached + now.pages_adapters_idle;
  RunnerState& state = fleet_.runner(runner);
  state.pages_free = pages_free - pages_sent_[runner];
  state.pages_used = options_.runner.num_pages - pages_free;
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
      if (!flight.has_drawn_here) fleet_.Draw(static_cast<size_t>(outcome.runner), flight.placed);
      flight.has_drawn_here = true;
    }
    if (event->finish_reason == FinishReason::kNone) continue;
    outcome.is_refused = event->finish_reason == FinishReason::kError;
    return End(request);
  }
}

void ClusterSimulation::Leave(int64_t request) {
  const Flight& flight = flights_[static_cast<size_t>(request)];
  const auto idx = static_cast<size_t>(result_.outcomes[static_cast<size_t>(request)].runner);
  fleet_.Leave(idx, flight.placed, flight.has_drawn_here);
  on_[idx].erase(request);
  if (--fleet_.runner(idx).num_requests == 0) {
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
    fleet_.End(NsToSeconds(outcome.end_ns - arrival_ns), flight.num_drawn);
  }
  flight.stream.reset();
  ++num_ended_;
  if (options_.on_progress && num_ended_ % kProgressEvery == 0) {
    options_.on_progress(num_ended_, std::ssize(workload_.requests));
  }
}

// Nothing else to come: a bug, which Run's end reports.
void ClusterSimulation::Plan() {
  if (time_.empty()) return;
  for (size_t i = 0; i < runners_.size(); ++i) {
    fleet_.SetHeld(i, runners_[i]->OnDevice(), /*is_whole=*/true);
  }
  policy_->Plan(fleet_);
  time_.At(time_.now_ns() + kPlanEveryNs, SimEventKind::kPlan, 0);
}

}  // namespace graft
