#include "engine/cold_start_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/check.h"

namespace graft {
namespace {

// What one more observation leaves of the weight of those before it: the last fifty or so count.
constexpr double kMemory = 0.98;

double WaitNs(const ArrivalForecast& arrival, double step_ns) {
  const double layers = arrival.size.num_layers;
  // Either the first layer is waited for and the others have come when they are wanted, or the
  // last one is.
  const double by_first = arrival.ahead_ns + arrival.own_ns / layers;
  const double by_last = arrival.ahead_ns + arrival.own_ns - step_ns * (layers - 1) / layers;
  return std::max(by_first, by_last);
}

// Whether a layer's rows are there is asked when the step comes to it: where the CPU takes longer
// than the copy of a layer, the next ones are there, and then the step is ahead of the copy again.
double BridgeNs(const ArrivalForecast& arrival, double step_ns, double bridge_ns) {
  const int32_t layers = arrival.size.num_layers;
  double stall_ns = 0.0;
  for (int32_t layer = 0; layer < layers; ++layer) {
    const double reached_ns = step_ns * layer / layers + stall_ns;
    const double there_ns = arrival.ahead_ns + arrival.own_ns * (layer + 1) / layers;
    if (reached_ns < there_ns) stall_ns += bridge_ns;
  }
  return stall_ns;
}

}  // namespace

// Those begun share the bus for `ns`, or until one of them has all its bytes, which took as long as
// is returned. One that has them keeps its place: the next begins when it has ended in truth.
double CopyForecast::ShareFor(double ns) {
  const std::span<Copy> begun(line_.data(), std::min(line_.size(), copies_at_once_));
  double least = std::numeric_limits<double>::infinity();
  int32_t num_sharing = 0;
  num_visits_ += static_cast<int64_t>(begun.size());
  for (const Copy& copy : begun) {
    if (copy.bytes_left == 0.0) continue;
    least = std::min(least, copy.bytes_left);
    ++num_sharing;
  }
  if (num_sharing == 0 || copy_ns_ == 0.0) return ns;
  const double byte_ns = copy_ns_ / bytes_ * num_sharing;
  const double took_ns = std::min(ns, least * byte_ns);
  for (Copy& copy : begun) {
    const double left = copy.bytes_left - took_ns / byte_ns;
    copy.bytes_left = left < 1.0 ? 0.0 : left;
  }
  return took_ns;
}

void CopyForecast::AdvanceTo(int64_t now_ns) {
  if (now_ns == seen_ns_) return;
  for (auto ns = static_cast<double>(now_ns - seen_ns_); ns > 0.0;) ns -= ShareFor(ns);
  seen_ns_ = now_ns;
  is_foreseen_ = false;
}

CopyForecast::Copy* CopyForecast::Find(int32_t content) {
  ++num_visits_;
  const auto place = static_cast<size_t>(content);
  if (place >= numbers_.size()) return nullptr;
  const auto copy =
      std::lower_bound(line_.begin(), line_.end(), numbers_[place],
                       [](const Copy& one, uint64_t number) { return one.number < number; });
  return copy == line_.end() || copy->content != content ? nullptr : &*copy;
}

void CopyForecast::Ordered(int32_t content, const CopySize& size, int64_t now_ns) {
  AdvanceTo(now_ns);
  const auto place = static_cast<size_t>(content);
  if (numbers_.size() <= place) numbers_.resize(place + 1);
  numbers_[place] = ++num_orders_;
  line_.push_back({.content = content,
                   .number = num_orders_,
                   .size = size,
                   .bytes_left = static_cast<double>(size.bytes)});
  if (!is_foreseen_) return;
  Enter(line_.size() - 1);
  ForeseeEnds();
}

void CopyForecast::Ended(int32_t content, int64_t copy_ns, int64_t now_ns) {
  AdvanceTo(now_ns);
  const Copy* const copy = Find(content);
  CHECK(copy != nullptr) << "content " << content;
  if (copy_ns > 0) {
    bytes_ = bytes_ * kMemory + static_cast<double>(copy->size.bytes);
    copy_ns_ = copy_ns_ * kMemory + static_cast<double>(copy_ns);
  }
  line_.erase(line_.begin() + (copy - line_.data()));
  is_foreseen_ = false;
}

// The first of those that share the bus then has all its bytes.
void CopyForecast::GoOnToNextEnd(Moment& moment) {
  double least = std::numeric_limits<double>::infinity();
  for (const Sharing& one : moment.sharing) least = std::min(least, one.bytes_left);
  const double byte_ns = copy_ns_ / bytes_ * static_cast<double>(moment.sharing.size());
  moment.ns += least * byte_ns;
  num_visits_ += static_cast<int64_t>(moment.sharing.size());
  std::erase_if(moment.sharing, [&](Sharing& one) {
    one.bytes_left -= least;
    if (one.bytes_left >= 1.0) return false;
    line_[one.idx].end_ns = moment.ns;
    return true;
  });
}

// The next of the line begins as soon as one of those before it has ended.
void CopyForecast::Enter(size_t idx) {
  ++num_visits_;
  Copy& copy = line_[idx];
  copy.begin_ns = copy.end_ns = 0.0;
  if (copy.bytes_left == 0.0) return;
  while (last_begin_.sharing.size() == copies_at_once_) GoOnToNextEnd(last_begin_);
  copy.begin_ns = last_begin_.ns;
  last_begin_.sharing.push_back({idx, copy.bytes_left});
}

// As if no copy came after the last one.
void CopyForecast::ForeseeEnds() {
  moment_ = last_begin_;
  while (!moment_.sharing.empty()) GoOnToNextEnd(moment_);
}

void CopyForecast::Foresee() {
  last_begin_.ns = 0.0;
  last_begin_.sharing.clear();
  for (size_t idx = 0; idx < line_.size(); ++idx) Enter(idx);
  ForeseeEnds();
  is_foreseen_ = true;
}

std::optional<ArrivalForecast> CopyForecast::Of(int32_t content, int64_t now_ns) {
  if (copy_ns_ == 0.0) return std::nullopt;
  AdvanceTo(now_ns);
  if (!is_foreseen_) Foresee();
  const Copy* const copy = Find(content);
  if (copy == nullptr) return std::nullopt;
  return ArrivalForecast{copy->begin_ns, copy->end_ns - copy->begin_ns, copy->size};
}

void StepCost::Observe(int64_t num_rows, int64_t ns) {
  const auto x = static_cast<double>(num_rows);
  const auto y = static_cast<double>(ns);
  weight_ = weight_ * kMemory + 1.0;
  rows_ = rows_ * kMemory + x;
  ns_ = ns_ * kMemory + y;
  rows_rows_ = rows_rows_ * kMemory + x * x;
  rows_ns_ = rows_ns_ * kMemory + x * y;
}

double StepCost::At(int64_t num_rows) const {
  CHECK(is_known());
  const double mean_rows = rows_ / weight_;
  const double mean_ns = ns_ / weight_;
  const double variance = rows_rows_ / weight_ - mean_rows * mean_rows;
  const double covariance = rows_ns_ / weight_ - mean_rows * mean_ns;
  // More rows never take less time; of steps that were all alike nothing else is known.
  double per_row = 0.0;
  if (variance > 1e-6 * mean_rows * mean_rows) per_row = std::max(0.0, covariance / variance);
  // Nor do no rows take less than none.
  per_row = std::min(per_row, mean_ns / mean_rows);
  return mean_ns + per_row * (static_cast<double>(num_rows) - mean_rows);
}

void BridgePace::Add(const CopySize& size, int64_t num_rows, bool is_new, BridgeWork* work) const {
  const auto rates =
      std::find_if(rates_.ranks.begin(), rates_.ranks.end() - 1,
                   [&size](const BridgeRates::OfRank& one) { return size.rank <= one.rank; });
  const double layer_bytes = static_cast<double>(size.bytes) / size.num_layers;
  work->num_rows += num_rows;
  work->rows_ns += layer_bytes * rates->row_ns * static_cast<double>(num_rows);
  if (!is_new) return;
  ++work->num_adapters;
  work->read_ns += layer_bytes * rates->read_ns;
}

// As rows are cut into shares: a worker is taken in where its rows take as long as reading does,
// and every border between two shares makes one more worker read.
double BridgePace::NsByRates(const BridgeWork& work) const {
  if (work.num_adapters == 0) return 0.0;
  const double adapters = work.num_adapters;
  const auto shares_max = static_cast<double>(
      std::max<int64_t>(1, std::min<int64_t>(rates_.num_workers, work.num_rows)));
  double shares = shares_max;
  if (work.read_ns > 0.0) {
    shares = std::clamp(std::floor(adapters * work.rows_ns / work.read_ns), 1.0, shares_max);
  }
  return (work.read_ns * (shares + adapters - 1.0) / adapters + work.rows_ns) / shares;
}

double BridgePace::LayerNs(const BridgeWork& work) const {
  return NsByRates(work) * times_rates_ / weight_;
}

void BridgePace::Observe(const BridgeWork& work, int32_t num_layers, double ns) {
  const double by_rates_ns = NsByRates(work) * num_layers;
  if (by_rates_ns <= 0.0) return;
  // Steps count alike, whatever their rows. What hides behind the products costs nothing.
  weight_ = weight_ * kMemory + 1.0;
  times_rates_ = times_rates_ * kMemory + std::max(0.0, ns) / by_rates_ns;
}

void BridgePace::Forget() { times_rates_ = weight_ + (times_rates_ - weight_) * kMemory; }

ArrivalStall StallWith(const ColdStartCase& step, const ColdStartCosts& costs) {
  const ArrivalForecast& arrival = step.arrival;
  const double step_ns = costs.steps.At(step.num_rows + step.num_rows_joining);
  ArrivalStall stall = step.stall;
  stall.wait_ns = std::max(stall.wait_ns, WaitNs(arrival, step_ns));
  stall.bridge_ns = stall.wait_ns;
  if (arrival.ahead_ns + arrival.own_ns >= stall.last.ahead_ns + stall.last.own_ns) {
    stall.last = arrival;
  }
  if (!costs.bridge.is_known()) return stall;
  costs.bridge.Add(arrival.size, step.num_rows_joining, !step.is_adapter_named, &stall.work);
  stall.bridge_ns = BridgeNs(stall.last, step_ns, costs.bridge.LayerNs(stall.work));
  return stall;
}

bool BeginsNow(const ColdStartCase& step, const ColdStartCosts& costs) {
  const double before_ns = step.stall.least_ns();
  const double stall_ns = StallWith(step, costs).least_ns();
  // If it does not begin now, it joins at the end of the first step after its adapter came. If it
  // is alone it does not even wait for that.
  double later_ns = step.arrival.ahead_ns + step.arrival.own_ns;
  if (step.num_others > 0) {
    const double beside_ns = std::max(1.0, costs.steps.At(step.num_rows) + before_ns);
    later_ns = std::max(1.0, std::ceil(later_ns / beside_ns)) * beside_ns;
  }
  return later_ns - stall_ns >= (stall_ns - before_ns) * step.num_others;
}

}  // namespace graft
