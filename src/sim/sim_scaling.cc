#include "sim/sim_scaling.h"

#include <algorithm>

#include "base/clock.h"

namespace graft {

SimScaling::SimScaling(const SimScalingOptions& options, const CostModel& costs, Fleet& fleet)
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

void SimScaling::Set(size_t runner, Phase phase) {
  runners_[runner].phase = phase;
  fleet_.runner(runner).is_open = phase == Phase::kUp;
}

void SimScaling::End(size_t runner, int64_t now_ns) {
  runners_[runner].paid_ns += now_ns - runners_[runner].since_ns;
  Set(runner, Phase::kOff);
}

std::vector<SimScaling::Order> SimScaling::Adjust(int64_t num_waiting, int64_t now_ns) {
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

bool SimScaling::OnStarted(size_t runner, int64_t number) {
  const Runner& one = runners_[runner];
  if (one.phase != Phase::kStarting || one.order != number) return false;
  Set(runner, Phase::kUp);
  return true;
}

void SimScaling::LetGo(int64_t now_ns) {
  for (size_t i = 0; i < runners_.size(); ++i) {
    if (runners_[i].phase == Phase::kGoing && fleet_.runner(i).num_requests == 0) End(i, now_ns);
  }
}

std::vector<size_t> SimScaling::Going() const {
  std::vector<size_t> going;
  for (size_t i = 0; i < runners_.size(); ++i) {
    if (runners_[i].phase == Phase::kGoing) going.push_back(i);
  }
  return going;
}

double SimScaling::PaidSeconds(int64_t now_ns) const {
  double seconds = 0.0;
  for (const Runner& one : runners_) {
    seconds += NsToSeconds(one.paid_ns);
    if (one.phase != Phase::kOff) seconds += NsToSeconds(now_ns - one.since_ns);
  }
  return seconds;
}

}  // namespace graft
