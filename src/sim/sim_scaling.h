// A fleet of a simulation that is as large as is wanted: runners beyond that are emptied and go,
// those that are wanted start. The first are the last to go, as in a StatefulSet. It keeps the
// fleet's is_open, and counts each runner's time from its order to its end. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/scale_hint.h"

namespace graft {

struct SimScalingOptions {
  bool is_on = false;  // else all runners serve from the beginning to the end
  ScaleOptions scale;
  // Requests of a runner that is to go are computed anew on others, where that is worth it.
  bool consolidates = true;
};

class SimScaling {
 public:
  // Runners of a fleet without requests. The first serves at 0. Borrows the fleet.
  SimScaling(const SimScalingOptions& options, const CostModel& costs, Fleet& fleet);

  struct Order {
    size_t runner = 0;
    int64_t number = 0;  // for OnStarted
  };
  // Once a second: what to order.
  std::vector<Order> Adjust(int64_t num_waiting, int64_t now_ns);
  // Unless the order was called off meanwhile. True: it serves now.
  bool OnStarted(size_t runner, int64_t number);
  // Runners that are going and have no requests are gone.
  void LetGo(int64_t now_ns);

  bool is_on() const { return options_.is_on; }
  // Runners that are going and take no requests.
  std::vector<size_t> Going() const;
  // The time of all runners, from orders to ends, until now.
  double PaidSeconds(int64_t now_ns) const;
  int64_t num_starts() const { return num_starts_; }
  int32_t num_paid_max() const { return num_paid_max_; }

 private:
  enum class Phase : uint8_t { kOff, kStarting, kUp, kGoing };
  struct Runner {
    Phase phase = Phase::kOff;
    int64_t order = 0;
    int64_t since_ns = 0;  // ordered; while it is not off
    int64_t paid_ns = 0;   // for what is over
  };
  void Set(size_t runner, Phase phase);
  void End(size_t runner, int64_t now_ns);

  const SimScalingOptions options_;
  const CostModel costs_;
  Fleet& fleet_;
  ScaleAdvisor advisor_;
  std::vector<Runner> runners_;
  int64_t num_starts_ = 0;
  int32_t num_paid_max_ = 0;
};

}  // namespace graft
