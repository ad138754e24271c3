// SimScaling keeps a simulated fleet as large as is wanted. Runners beyond that are emptied and go,
// and missing runners start. The first runners are the last to go, as in a StatefulSet. It sets the
// fleet's is_open, and counts each runner's time from its order to its end. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/clock.h"
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
  SimScaling(const SimScalingOptions& options, const CostModel& costs, Fleet& fleet)
      : options_(options), costs_(costs), fleet_(fleet), runners_(fleet.num_runners()) {
    for (size_t i = 0; i < runners_.size(); ++i) {
      Set(i, !options_.is_on || i == 0 ? Phase::kUp : Phase::kOff);
    }
    // The runner that serves at 0 was ordered before.
    if (options_.is_on) {
      runners_[0].since_ns = -static_cast<int64_t>(options_.scale.startup_seconds * 1e9);
      num_starts_ = 1;
    }
  }

  struct Order {
    size_t runner = 0;
    int64_t number = 0;  // for OnStarted
  };
  // Once a second: what to order.
  std::vector<SimScaling::Order> Adjust(int64_t num_waiting, int64_t now_ns) {
    if (!options_.is_on) return {};
    const double filled = RunnersFilled(fleet_, num_waiting, options_.scale.batch_share, costs_);
    advisor_.Observe(filled, NumOpen(fleet_), options_.scale, now_ns);
    std::vector<Order> orders;
    int32_t num_paid = 0;
    for (size_t i = 0; i < runners_.size(); ++i) {
      Runner& one = runners_[i];
      const bool is_wanted = i < static_cast<size_t>(advisor_.wanted());
      if (is_wanted && one.phase == Phase::kOff) {
        Set(i, Phase::kStarting);
        one.since_ns = now_ns;
        orders.push_back({i, ++one.order});
        ++num_starts_;
      } else if (is_wanted && one.phase == Phase::kGoing) {
        Set(i, Phase::kUp);
      } else if (!is_wanted && one.phase == Phase::kStarting) {
        End(i, now_ns);
      } else if (!is_wanted && one.phase == Phase::kUp) {
        Set(i, Phase::kGoing);
      }
      num_paid += one.phase == Phase::kOff ? 0 : 1;
    }
    num_paid_max_ = std::max(num_paid_max_, num_paid);
    return orders;
  }

  // Unless the order was called off meanwhile. True: it serves now.
  bool OnStarted(size_t runner, int64_t number) {
    const Runner& one = runners_[runner];
    if (one.phase != Phase::kStarting || one.order != number) return false;
    Set(runner, Phase::kUp);
    return true;
  }

  // Runners that are going and have no requests are gone.
  void LetGo(int64_t now_ns) {
    for (size_t i = 0; i < runners_.size(); ++i) {
      if (runners_[i].phase == Phase::kGoing && fleet_.runner(i).num_requests == 0) End(i, now_ns);
    }
  }

  bool is_on() const { return options_.is_on; }
  // Runners that are going and take no requests.
  std::vector<size_t> Going() const {
    std::vector<size_t> going;
    for (size_t i = 0; i < runners_.size(); ++i) {
      if (runners_[i].phase == Phase::kGoing) going.push_back(i);
    }
    return going;
  }

  // The time of all runners, from orders to ends, until now.
  double PaidSeconds(int64_t now_ns) const {
    double seconds = 0.0;
    for (const Runner& one : runners_) {
      seconds += NsToSeconds(one.paid_ns);
      if (one.phase != Phase::kOff) seconds += NsToSeconds(now_ns - one.since_ns);
    }
    return seconds;
  }

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
  void Set(size_t runner, Phase phase) {
    runners_[runner].phase = phase;
    fleet_.runner(runner).is_open = phase == Phase::kUp;
  }

  void End(size_t runner, int64_t now_ns) {
    runners_[runner].paid_ns += now_ns - runners_[runner].since_ns;
    Set(runner, Phase::kOff);
  }

  const SimScalingOptions options_;
  const CostModel costs_;
  Fleet& fleet_;
  ScaleAdvisor advisor_;
  std::vector<Runner> runners_;
  int64_t num_starts_ = 0;
  int32_t num_paid_max_ = 0;
};

}  // namespace graft
