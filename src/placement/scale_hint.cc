#include "placement/scale_hint.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace graft {
namespace {

// A trend is seen over so long, and over so many starts where that is longer.
constexpr double kTrendSeconds = 60.0;
constexpr double kTrendStarts = 4.0;
// What is wanted once is wanted for a start's time, and so long at least.
constexpr double kHoldSeconds = 10.0;
// What is kept free for chance, in deviations from the trend.
constexpr double kDeviations = 2.0;
// A trend is followed so far above what was seen.
constexpr double kAboveSeenMax = 1.5;

// The part of `text` from `at` on that is digits, without leading zeros; moves `at` behind it.
std::string TakeDigits(const std::string& text, size_t* at) {
  const size_t begin = *at;
  while (*at < text.size() && std::isdigit(static_cast<unsigned char>(text[*at])) != 0) ++*at;
  std::string digits = text.substr(begin, *at - begin);
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

}  // namespace

int32_t NumOpen(const Fleet& fleet) {
  int32_t num_open = 0;
  for (size_t i = 0; i < fleet.num_runners(); ++i) num_open += fleet.runner(i).is_open ? 1 : 0;
  return num_open;
}

double RunnersFilled(const Fleet& fleet, int64_t num_waiting, double batch_share) {
  int64_t requests = num_waiting, batches = 0, pages_used = 0, pages = 0;
  for (size_t i = 0; i < fleet.num_runners(); ++i) {
    const RunnerState& runner = fleet.runner(i);
    requests += runner.num_requests;
    pages_used += runner.pages_used;
    if (!runner.is_open) continue;
    batches += runner.batch_max;
    pages += runner.num_pages;
  }
  const int32_t num_open = NumOpen(fleet);
  if (num_open == 0) return requests > 0 ? 1.0 : 0.0;
  if (batches == 0) return num_open;  // they do not say what they can
  double share = static_cast<double>(requests) / (static_cast<double>(batches) * batch_share);
  if (pages > 0) {
    share = std::max(share, static_cast<double>(pages_used) / static_cast<double>(pages));
  }
  return share * num_open;
}

// The straight line through what was filled, and how far that strays from it.
double ScaleAdvisor::Forecast(double startup_seconds) const {
  const double now = filled_.back().seconds;
  const auto count = static_cast<double>(filled_.size());
  double mean_time = 0.0, mean = 0.0, most = 0.0;
  for (const Sample& one : filled_) {
    mean_time += (one.seconds - now) / count;
    mean += one.value / count;
    most = std::max(most, one.value);
  }
  double both = 0.0, square = 0.0;
  for (const Sample& one : filled_) {
    const double time = one.seconds - now - mean_time;
    both += time * (one.value - mean);
    square += time * time;
  }
  const double slope = square > 0.0 ? both / square : 0.0;
  const double level = mean - slope * mean_time;
  double variance = 0.0;
  for (const Sample& one : filled_) {
    const double off = one.value - (level + slope * (one.seconds - now));
    variance += off * off / count;
  }
  const double ahead = std::max(level, level + slope * startup_seconds);
  const double wanted = ahead + kDeviations * std::sqrt(variance);
  return std::max(filled_.back().value, std::min(wanted, most * kAboveSeenMax));
}

void ScaleAdvisor::Observe(double runners_filled, int32_t num_runners, const ScaleOptions& options,
                           int64_t now_ns) {
  const double now = static_cast<double>(now_ns) * 1e-9;
  if (!has_begun_) began_seconds_ = now;
  has_begun_ = true;
  const double trend_seconds = std::max(kTrendSeconds, kTrendStarts * options.startup_seconds);
  filled_.push_back({now, runners_filled});
  while (now - filled_.front().seconds > trend_seconds) filled_.pop_front();
  // What is a whole number but for rounding is that number.
  const double needed = std::max(1.0, std::ceil(Forecast(options.startup_seconds) - 1e-9));
  while (!needed_.empty() && needed_.back().value <= needed) needed_.pop_back();
  needed_.push_back({now, needed});
  const double hold_seconds = std::max(kHoldSeconds, options.startup_seconds);
  while (now - needed_.front().seconds > hold_seconds) needed_.pop_front();
  wanted_ = static_cast<int32_t>(needed_.front().value);
  if (now - began_seconds_ < hold_seconds) wanted_ = std::max(wanted_, num_runners);
}

bool ComesBefore(const std::string& name, const std::string& other) {
  size_t i = 0, j = 0;
  while (i < name.size() && j < other.size()) {
    const bool are_digits = std::isdigit(static_cast<unsigned char>(name[i])) != 0 &&
                            std::isdigit(static_cast<unsigned char>(other[j])) != 0;
    if (are_digits) {
      const std::string a = TakeDigits(name, &i), b = TakeDigits(other, &j);
      if (a.size() != b.size()) return a.size() < b.size();
      if (a != b) return a < b;
    } else {
      if (name[i] != other[j]) return name[i] < other[j];
      ++i;
      ++j;
    }
  }
  return name.size() - i < other.size() - j;
}

std::vector<size_t> RunnersToSpare(std::span<const std::string> names,
                                   std::span<const uint8_t> is_open, int32_t num_wanted) {
  std::vector<size_t> open;
  for (size_t i = 0; i < names.size(); ++i) {
    if (is_open[i] != 0) open.push_back(i);
  }
  std::sort(open.begin(), open.end(),
            [&](size_t a, size_t b) { return ComesBefore(names[a], names[b]); });
  const auto num_kept = static_cast<size_t>(std::max(1, num_wanted));
  if (open.size() <= num_kept) return {};
  return {open.begin() + static_cast<std::ptrdiff_t>(num_kept), open.end()};
}

}  // namespace graft
