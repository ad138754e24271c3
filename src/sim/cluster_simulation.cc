#include "sim/cluster_simulation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace graft {
namespace {

constexpr int64_t kPlanEveryNs = 1'000'000'000;
constexpr int64_t kProgressEvery = 1024;

}  // namespace

ClusterSimulation::ClusterSimulation(const SimWorkload& workload, const SimClusterOptions& options)
    : workload_(workload),
      options_(options),
      policy_(MakePlacementPolicy(options.placement)),
      fetches_(options.placement.seed),
      pages_sent_(static_cast<size_t>(options.num_runners)),
      busy_since_ns_(pages_sent_.size()),
      flights_(workload.requests.size()) {
  const SimRunnerOptions& runner = options_.runner;
  CHECK(runner.host_adapters == 0 || !workload.fetch_ms.empty()) << "fetches take a time";
  fleet_.SetNumRunners(pages_sent_.size());
  for (size_t i = 0; i < fleet_.num_runners(); ++i) {
    const auto fetch_ns = [this] {
      return static_cast<int64_t>(workload_.fetch_ms[fetches_.Below(workload_.fetch_ms.size())] *
                                  1e6);
    };
    runners_.push_back(std::make_unique<SimRunner>(runner, workload_.adapters, time_,
                                                   static_cast<int64_t>(i), fetch_ns));
    fleet_.runner(i) = {.id = RandomBits(options_.placement.seed, i),
                        .is_open = true,
                        .batch_max = runner.batch_max,
                        .adapters_max = runner.adapters_max,
                        .page_tokens = runner.page_tokens,
                        .pages_free = runner.num_pages};
  }
  result_.outcomes.resize(workload.requests.size());
  result_.runners.resize(fleet_.num_runners());
}

SimResult ClusterSimulation::Run() {
  if (!workload_.requests.empty()) {
    time_.At(workload_.requests.front().arrival_ns, SimEventKind::kArrival, 0);
    time_.At(0, SimEventKind::kPlan, 0);
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
    }
  }
  CHECK_EQ(num_ended_, std::ssize(workload_.requests)) << "requests that nothing will end";
  result_.end_ns = time_.now_ns();
  for (size_t i = 0; i < runners_.size(); ++i) {
    CHECK(runners_[i]->CheckIntegrity().ok()) << runners_[i]->CheckIntegrity().ToString();
    const EngineSnapshot now = runners_[i]->Snapshot();
    SimRunnerFigures& figures = result_.runners[i];
    figures.steps = now.steps;
    figures.output_tokens = now.output_tokens;
    figures.adapter_copies = now.adapter_copies;
    figures.adapter_fetches = now.adapter_fetches;
    figures.adapter_evictions = now.adapter_evictions;
    figures.preemptions = now.preemptions;
  }
  return std::move(result_);
}

Request ClusterSimulation::MakeRequest(int64_t request) const {
  const SimRequest& asked = workload_.requests[static_cast<size_t>(request)];
  Request made;
  made.id = static_cast<uint64_t>(request) + 1;
  if (asked.adapter != kBaseModel) made.UseAdapter(SimAdapters::HashOf(asked.adapter));
  made.prompt_tokens.assign(static_cast<size_t>(asked.prompt_tokens), kSimToken);
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
  Flight& flight = flights_[static_cast<size_t>(request)];
  const int32_t picked =
      policy_->Pick(fleet_, {.request = flight.placed, .now_ns = time_.now_ns()});
  if (picked == kNoRunner) return false;
  const auto idx = static_cast<size_t>(picked);
  RunnerState& state = fleet_.runner(idx);
  if (state.num_requests++ == 0) busy_since_ns_[idx] = time_.now_ns();
  fleet_.Place(idx, flight.placed);
  const int32_t page_tokens = options_.runner.page_tokens;
  pages_sent_[idx] += (flight.placed.prompt_tokens + page_tokens - 1) / page_tokens;
  ++result_.runners[idx].requests;
  result_.outcomes[static_cast<size_t>(request)].runner = picked;
  flight.stream = std::make_shared<TokenStream>();
  flight.stream->SetReadyCallback([this, request] { ready_.push_back(request); });
  const Status status = runners_[idx]->Submit(MakeRequest(request), flight.stream);
  if (!status.ok()) {
    result_.outcomes[static_cast<size_t>(request)].is_refused = true;
    End(request);
  }
  Look(idx);
  ReadStreams();
  return true;
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
  fleet_.runner(runner).pages_free =
      now.pages_free + now.pages_cached + now.pages_adapters_idle - pages_sent_[runner];
}

void ClusterSimulation::ReadStreams() {
  for (const int64_t request : std::exchange(ready_, {})) Read(request);
}

void ClusterSimulation::Read(int64_t request) {
  Flight& flight = flights_[static_cast<size_t>(request)];
  SimOutcome& outcome = result_.outcomes[static_cast<size_t>(request)];
  while (const std::optional<TokenEvent> event = flight.stream->TryPop()) {
    if (event->token >= 0 && flight.num_drawn++ == 0) {
      outcome.first_ns = time_.now_ns();
      fleet_.Draw(static_cast<size_t>(outcome.runner), flight.placed);
    }
    if (event->finish_reason == FinishReason::kNone) continue;
    outcome.is_refused = event->finish_reason == FinishReason::kError;
    return End(request);
  }
}

void ClusterSimulation::End(int64_t request) {
  Flight& flight = flights_[static_cast<size_t>(request)];
  SimOutcome& outcome = result_.outcomes[static_cast<size_t>(request)];
  const auto idx = static_cast<size_t>(outcome.runner);
  outcome.end_ns = time_.now_ns();
  fleet_.Leave(idx, flight.placed, /*has_drawn=*/outcome.first_ns >= 0);
  if (!outcome.is_refused) {
    const int64_t arrival_ns = workload_.requests[static_cast<size_t>(request)].arrival_ns;
    fleet_.End(NsToSeconds(outcome.end_ns - arrival_ns), flight.num_drawn);
  }
  if (--fleet_.runner(idx).num_requests == 0) {
    result_.runners[idx].busy_seconds += NsToSeconds(time_.now_ns() - busy_since_ns_[idx]);
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
