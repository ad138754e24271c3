// Runners of a simulation that come and go, and the requests that move for it.

#include "base/milliseconds.h"
#include "placement/scale_hint.h"
#include "sim/cluster_simulation.h"

namespace graft {
namespace {

constexpr int64_t kScaleEveryNs = 1'000'000'000;
constexpr int64_t kEmptyEveryNs = 50'000'000;
// Tokens that are computed anew for each kEmptyEveryNs: about a step's, so that requests that draw
// are slowed little.
constexpr int64_t kMovedTokensMax = 512;

}  // namespace

// A new one, in a former one's place.
void ClusterSimulation::Equip(size_t runner) {
  const auto fetch_ns = [this] {
    return MsToNs(workload_.fetch_ms[fetches_.Below(workload_.fetch_ms.size())]);
  };
  // A runner's number tells its starts apart: what a former one asked for is not this one's.
  const int64_t number =
      static_cast<int64_t>(runner) + std::ssize(runners_) * num_equipped_[runner]++;
  SimMachine* const machine =
      machines_.empty() ? nullptr
                        : machines_[runner / static_cast<size_t>(options_.machine_runners)].get();
  runners_[runner] = std::make_unique<SimRunner>(options_.runner, workload_.adapters, time_, number,
                                                 fetch_ns, machine);
  const bool is_open = fleet_.runner(runner).is_open;
  for (const auto& frontend : frontends_) frontend->Equip(runner, is_open);
}

// What came of it.
void ClusterSimulation::Collect(size_t runner) {
  const EngineSnapshot now = runners_[runner]->Snapshot();
  SimRunnerFigures& figures = result_.runners[runner];
  figures.steps += now.steps;
  figures.output_tokens += now.output_tokens;
  figures.adapter_copies += now.adapter_copies;
  figures.adapter_fetches += now.adapter_fetches;
  figures.adapter_evictions += now.adapter_evictions;
  figures.preemptions += now.preemptions;
  figures.prefix_lookup_tokens += now.prefix_lookup_tokens;
  figures.prefix_hit_tokens += now.prefix_hit_tokens;
}

void ClusterSimulation::Scale() {
  const auto start_ns = static_cast<int64_t>(options_.scaling.scale.startup_seconds * 1e9);
  for (const SimScaling::Order& order :
       scaling_.Adjust(std::ssize(frontends_[0]->line()), time_.now_ns())) {
    const int64_t target = order.number * std::ssize(runners_) + static_cast<int64_t>(order.runner);
    time_.At(time_.now_ns() + start_ns, SimEventKind::kStarted, target);
  }
  if (!is_emptying_) EmptyGoing();
  PlaceLines();  // one that was going may stay
  time_.At(time_.now_ns() + kScaleEveryNs, SimEventKind::kScale, 0);
}

void ClusterSimulation::OnStarted(int64_t target) {
  const auto runner = static_cast<size_t>(target % std::ssize(runners_));
  if (!scaling_.OnStarted(runner, target / std::ssize(runners_))) return;
  Collect(runner);
  Equip(runner);
  PlaceLines();
}

void ClusterSimulation::EmptyGoing() {
  is_emptying_ = false;
  int64_t tokens_left = kMovedTokensMax;
  bool is_later = false;
  for (const size_t runner : scaling_.Going()) is_later = Empty(runner, &tokens_left) || is_later;
  scaling_.LetGo(time_.now_ns());
  if (!is_later) return;
  is_emptying_ = true;
  time_.At(time_.now_ns() + kEmptyEveryNs, SimEventKind::kEmpty, 0);
}

// True: it still has requests.
bool ClusterSimulation::Empty(size_t runner, int64_t* tokens_left) {
  std::vector<MovableRequest> movable;
  const std::vector<int64_t> there(on_[runner].begin(), on_[runner].end());
  for (const int64_t request : there) {
    const Flight& flight = flights_[static_cast<size_t>(request)];
    const int32_t prompt_tokens = workload_.requests[static_cast<size_t>(request)].prompt_tokens;
    movable.push_back({prompt_tokens + flight.num_drawn,
                       workload_.output_tokens_told - flight.num_drawn, flight.placed.rank});
  }
  const CostModel& costs = options_.placement.costs;
  const std::vector<uint8_t> all(runners_.size(), 1);
  if (options_.scaling.consolidates && IsWorthEmptying(fleet_, runner, movable, all, costs)) {
    for (size_t i = 0; i < there.size() && *tokens_left > 0; ++i) {
      if (!IsWorthMoving(fleet_, runner, movable[i], costs) || !Move(there[i])) continue;
      *tokens_left -= movable[i].tokens;
    }
  }
  return !on_[runner].empty();
}

// To one with room, if there is any.
bool ClusterSimulation::Move(int64_t request) {
  Flight& flight = flights_[static_cast<size_t>(request)];
  const auto from = static_cast<size_t>(result_.outcomes[static_cast<size_t>(request)].runner);
  PlacementQuery query = {.request = flight.placed, .now_ns = time_.now_ns()};
  std::vector<uint8_t> has_room;
  for (size_t i = 0; i < runners_.size(); ++i) has_room.push_back(HasRoom(fleet_, i, query));
  query.allowed = has_room;
  const int32_t picked = frontends_[0]->Pick(query);
  if (picked == kNoRunner) return false;
  const RequestId id = MakeRequest(request).id;
  Leave(request);
  ++flight.num_moves;
  ++result_.moves;
  runners_[from]->Cancel(id);
  Send(request, static_cast<size_t>(picked));
  return true;
}

}  // namespace graft
