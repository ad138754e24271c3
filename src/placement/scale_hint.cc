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
constexpr double kDeviations = 2.25;
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

// A step of `num_requests` like those on the runner, with the prompts that come meanwhile.
double StepMsOf(const Fleet& fleet, const BatchRanks& like, double num_requests,
                const CostModel& costs) {
  const double prompt = fleet.MeanPromptTokens();
  const double output = std::max(1.0, fleet.MeanOutputTokens());
  const double rank = static_cast<double>(like.sum) / static_cast<double>(like.num_requests);
  StepWork work;
  work.ranks.num_requests = std::llround(num_requests);
  work.ranks.sum = std::llround(num_requests * rank);
  work.ranks.largest = like.largest;
  work.prompt_tokens = std::llround(num_requests * prompt / output);
  work.context_tokens = std::llround(num_requests * (prompt + output / 2));
  return costs.StepMs(work);
}

// What the runner's requests draw a second, of what `full` of them would. Those beyond its batch
// wait, and count as requests that are on no runner.
double PartFilled(const Fleet& fleet, size_t idx, double full, const CostModel& costs) {
  const RunnerState& runner = fleet.runner(idx);
  const BatchRanks ranks = fleet.RanksOf(idx);
  if (runner.num_requests <= 0 || ranks.num_requests <= 0) return 0.0;
  const int64_t batch = runner.batch_max > 0 ? runner.batch_max : runner.num_requests;
  const auto num_drawing = static_cast<double>(std::min(runner.num_requests, batch));
  const double waiting = static_cast<double>(runner.num_requests) - num_drawing;
  const double ms = StepMsOf(fleet, ranks, num_drawing, costs);
  if (ms <= 0.0) return static_cast<double>(runner.num_requests) / full;
  return num_drawing / full * StepMsOf(fleet, ranks, full, costs) / ms + waiting / full;
}

// The part of what is saved that moving may cost, as predictions are not exact.
constexpr double kCostShareMax = 0.5;

double MoveMs(const MovableRequest& request, const CostModel& costs) {
  return costs.PromptMsOf(static_cast<double>(request.tokens), 0.0, request.rank, request.rank);
}

// Answers are as long as those that ended of late; how much a request has drawn tells nothing of
// what is left.
double TokensLeft(const Fleet& fleet, const MovableRequest& request) {
  return std::min(std::max(1.0, fleet.MeanOutputTokens()),
                  std::max(1.0, static_cast<double>(request.tokens_left_max)));
}

double StepMsOn(const Fleet& fleet, size_t runner, const CostModel& costs) {
  return costs.StepMs({.ranks = fleet.RanksOf(runner)});
}

}  // namespace

int32_t NumOpen(const Fleet& fleet) {
  int32_t num_open = 0;
  for (size_t i = 0; i < fleet.num_runners(); ++i) num_open += fleet.runner(i).is_open ? 1 : 0;
  return num_open;
}

double RunnersFilled(const Fleet& fleet, int64_t num_waiting, double batch_share,
                     const CostModel& costs) {
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
  const double full = std::max(1.0, batch_share * static_cast<double>(batches) / num_open);
  double filled = static_cast<double>(num_waiting) / full;
  for (size_t i = 0; i < fleet.num_runners(); ++i) filled += PartFilled(fleet, i, full, costs);
  if (pages == 0) return filled;
  return std::max(filled, static_cast<double>(pages_used) * num_open / static_cast<double>(pages));
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
  const double hold_seconds = std::max(kHoldSeconds, options.startup_seconds);
  const bool has_trend = now - began_seconds_ >= hold_seconds;
  const double filled = has_trend ? Forecast(options.startup_seconds) : runners_filled;
  // What is a whole number but for rounding is that number.
  const double needed = std::max(1.0, std::ceil(filled - 1e-9));
  while (!needed_.empty() && needed_.back().value <= needed) needed_.pop_back();
  needed_.push_back({now, needed});
  while (now - needed_.front().seconds > hold_seconds) needed_.pop_front();
  wanted_ = static_cast<int32_t>(needed_.front().value);
  if (!has_trend) wanted_ = std::max(wanted_, num_runners);
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

bool IsWorthMoving(const Fleet& fleet, size_t runner, const MovableRequest& request,
                   const CostModel& costs) {
  return MoveMs(request, costs) <
         kCostShareMax * StepMsOn(fleet, runner, costs) * TokensLeft(fleet, request);
}

bool IsWorthEmptying(const Fleet& fleet, size_t runner, std::span<const MovableRequest> requests,
                     std::span<const uint8_t> is_target, const CostModel& costs) {
  int64_t num_places = 0;
  for (size_t i = 0; i < fleet.num_runners(); ++i) {
    const RunnerState& other = fleet.runner(i);
    if (i == runner || !other.is_open || is_target[i] == 0) continue;
    if (other.batch_max <= 0) return false;  // it does not say what it could take
    num_places += std::max<int64_t>(0, other.batch_max - other.num_requests);
  }
  if (num_places < static_cast<int64_t>(requests.size())) return false;
  // The last of n ends after 1 + 1/2 + ... + 1/n of a mean answer, and within its own bound.
  double cost_ms = 0.0, left = 0.0, left_most = 0.0, harmonic = 0.0;
  for (size_t i = 0; i < requests.size(); ++i) {
    cost_ms += MoveMs(requests[i], costs);
    harmonic += 1.0 / static_cast<double>(i + 1);
    left = std::max(left, TokensLeft(fleet, requests[i]));
    left_most = std::max(left_most, static_cast<double>(requests[i].tokens_left_max));
  }
  const double saved_ms =
      StepMsOn(fleet, runner, costs) * std::min(left * harmonic, std::max(left, left_most));
  return cost_ms < kCostShareMax * saved_ms;
}

}  // namespace graft
