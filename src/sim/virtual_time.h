// The clock and the queue of events of a simulation. Events for the same time come in the order in
// which they were added, so that a run depends on nothing else. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "base/clock.h"

namespace graft {

class VirtualClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  void Set(int64_t now_ns) { now_ns_ = now_ns; }

 private:
  int64_t now_ns_ = 0;
};

enum class SimEventKind : uint8_t {
  kArrival,  // of request `target`
  kStepEnd,  // of runner `target`
  kLoads,    // runner `target` should look at its loads
  kScale,    // runners come and go
  kStarted,  // an order of a runner, see ClusterSimulation::OnStarted
  kEmpty,    // runners that are going are emptied
  kPlan,     // the placement policies plan
  kLook,     // frontend `target` looks at the runners
  kFail,     // one of the runners fails
  kReturn,   // runner `target` is up again
  kRecover,  // the start `target` of a runner is as fast as it was
};

struct SimEvent {
  int64_t ns = 0;
  int64_t number = 0;  // of all events so far
  SimEventKind kind = SimEventKind::kArrival;
  int64_t target = 0;

  bool operator>(const SimEvent& other) const {
    return std::tie(ns, number) > std::tie(other.ns, other.number);
  }
};

class VirtualTime {
 public:
  VirtualClock& clock() { return clock_; }
  int64_t now_ns() const { return clock_.NowNs(); }
  // An event of the past comes now.
  void At(int64_t ns, SimEventKind kind, int64_t target) {
    events_.push({std::max(ns, now_ns()), num_events_++, kind, target});
  }
  bool empty() const { return events_.empty(); }
  // The next event; the clock shows its time by then.
  SimEvent Next() {
    const SimEvent event = events_.top();
    events_.pop();
    clock_.Set(event.ns);
    return event;
  }

 private:
  VirtualClock clock_;
  std::priority_queue<SimEvent, std::vector<SimEvent>, std::greater<>> events_;
  int64_t num_events_ = 0;
};

}  // namespace graft
