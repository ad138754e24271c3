// Runners of a simulation that fail, and their requests, which continue on other runners. Every
// frontend has a connection of its own to each runner and sees the runner's end at once. Only the
// runners' reports about themselves are as old as --view-ms says.

#include "sim/cluster_simulation.h"

namespace graft {
namespace {

int64_t SecondsToNs(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

}  // namespace

void ClusterSimulation::AskForFailure() {
  const double seconds = failures_.Exponential() * options_.failures.every_seconds;
  time_.At(time_.now_ns() + SecondsToNs(seconds), SimEventKind::kFail, 0);
}

// Any of those that are up; the last one stays.
void ClusterSimulation::FailOne() {
  std::vector<size_t> up;
  for (size_t i = 0; i < runners_.size(); ++i) {
    if (runners_[i] != nullptr) up.push_back(i);
  }
  if (up.size() > 1) Fail(up[failures_.Below(up.size())]);
  AskForFailure();
}

void ClusterSimulation::Fail(size_t runner) {
  ++result_.failures;
  const std::set<int64_t> lost = on_[runner];
  for (const int64_t request : lost) {
    Flight& flight = flights_[static_cast<size_t>(request)];
    Leave(request);
    flight.stream->SetReadyCallback({});
    flight.stream.reset();
    ++flight.num_moves;
    ++result_.moves;
    FrontendOf(request).line().insert(request);
  }
  Collect(runner);
  runners_[runner].reset();
  for (const auto& frontend : frontends_) frontend->fleet().Reset(runner);
  time_.At(time_.now_ns() + SecondsToNs(options_.failures.down_seconds), SimEventKind::kReturn,
           static_cast<int64_t>(runner));
  PlaceLines();
}

void ClusterSimulation::Return(size_t runner) {
  fleet_.runner(runner).is_open = true;
  Equip(runner);
  runners_[runner]->set_slowness(options_.failures.slowness);
  time_.At(time_.now_ns() + SecondsToNs(options_.failures.slow_seconds), SimEventKind::kRecover,
           runners_[runner]->number());
  PlaceLines();
}

// As fast as it was, unless it has died since.
void ClusterSimulation::Recover(int64_t number) {
  SimRunner* const runner = runners_[static_cast<size_t>(number) % runners_.size()].get();
  if (runner != nullptr && runner->number() == number) runner->set_slowness(1.0);
}

}  // namespace graft
