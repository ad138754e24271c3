#include "sim/simulated_workload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace graft {
namespace {

// Geometric with this mean, 1 at least.
int32_t DrawLength(int32_t mean, Random& random) {
  if (mean <= 1) return 1;
  const double drawn = random.Exponential() * (mean - 0.5) + 0.5;
  return std::max(1, static_cast<int32_t>(std::lround(drawn)));
}

RequestLengths DrawLengths(const SimWorkloadOptions& options, Random& random) {
  const RequestLengths drawn = {DrawLength(options.prompt_tokens, random),
                                DrawLength(options.output_tokens, random)};
  if (options.lengths.empty()) return drawn;
  return options.lengths[random.Below(options.lengths.size())];
}

struct MeanLengths {
  double prompt = 0.0, output = 0.0;
};

MeanLengths MeanOf(const SimWorkloadOptions& options) {
  const double shared = options.num_prefixes > 0 ? options.prefix_tokens : 0;
  if (options.lengths.empty()) {
    return {shared + options.prompt_tokens, double{1} * options.output_tokens};
  }
  MeanLengths mean;
  for (const RequestLengths& one : options.lengths) {
    mean.prompt += one.prompt_tokens;
    mean.output += one.output_tokens;
  }
  const auto count = static_cast<double>(options.lengths.size());
  return {shared + mean.prompt / count, mean.output / count};
}

double MeanRankOf(const SimWorkloadOptions& options) {
  double sum = 0.0;
  for (const int rank : options.ranks) sum += rank;
  return sum / static_cast<double>(options.ranks.size());
}

std::vector<double> PopularityOf(const SimWorkloadOptions& options) {
  return options.weights.empty() ? ZipfWeights(options.num_adapters, options.zipf)
                                 : StretchWeights(options.weights, options.num_adapters);
}

// The time of one token of each request of a batch, with as many prompts as those requests bring.
double TokenMsOf(double batch, const SimWorkloadOptions& workload, const CostModel& costs) {
  const MeanLengths mean = MeanOf(workload);
  const double rank = MeanRankOf(workload);
  const double context = mean.prompt + mean.output / 2;
  const double units =
      costs.pads ? *std::max_element(workload.ranks.begin(), workload.ranks.end()) : rank;
  const double with_prompts = std::min(1.0, batch / mean.output);  // share of steps
  return costs.step_ms + costs.served.step_ms + costs.served.ms_per_row * (batch - 1) +
         costs.step_ms_with_adapters + costs.step_ms_with_prompts * with_prompts +
         batch * (costs.step_ms_per_row + costs.step_ms_per_unit * units +
                  costs.step_ms_per_context_token * context +
                  costs.PromptTokenMs(mean.prompt / 2, units, units) * mean.prompt / mean.output);
}

// When requests come.
class Arrivals {
 public:
  explicit Arrivals(const SimWorkloadOptions& options)
      : options_(options), shape_(options.cv > 0.0 ? 1.0 / (options.cv * options.cv) : 0.0) {}

  double Next(Random& random) {
    const double gap = shape_ > 0.0 ? DrawGamma(shape_, random) / shape_ : 1.0;
    double rate = options_.requests_per_second;
    if (options_.day_seconds > 0.0) {
      constexpr double kTurn = 6.283185307179586;
      rate *= 1.0 + options_.day_swing * std::sin(kTurn * now_ / options_.day_seconds);
    }
    now_ += gap / rate;
    return now_;
  }

 private:
  const SimWorkloadOptions& options_;
  const double shape_;
  double now_ = 0.0;
};

// Which adapters requests ask for: places by popularity, and the adapters in them.
class Adapters {
 public:
  Adapters(const SimWorkloadOptions& options, Random& random)
      : options_(options), picker_(PopularityOf(options)) {
    for (int32_t i = 0; i < options.num_adapters; ++i) Add(i, random);
    SetNextChange(0.0, random);
  }

  int32_t Next(double now, Random& random) {
    while (now >= next_change_) {
      Add(static_cast<int32_t>(random.Below(at_.size())), random);
      SetNextChange(next_change_, random);
    }
    const double since = now - options_.crowd_at_seconds;
    if (since >= 0.0 && since < options_.crowd_seconds && random.Uniform() < options_.crowd_share) {
      return at_.back();
    }
    return at_[static_cast<size_t>(picker_.Pick(random))];
  }

  SimAdapters Take() { return std::move(adapters_); }

 private:
  void Add(int32_t place, Random& random) {
    if (static_cast<size_t>(place) >= at_.size()) at_.resize(static_cast<size_t>(place) + 1);
    at_[static_cast<size_t>(place)] = static_cast<int32_t>(adapters_.ranks.size());
    adapters_.ranks.push_back(options_.ranks[random.Below(options_.ranks.size())]);
  }
  void SetNextChange(double now, Random& random) {
    const double life = options_.adapter_life_seconds;
    next_change_ = life > 0.0 ? now + random.Exponential() * life / options_.num_adapters
                              : std::numeric_limits<double>::infinity();
  }

  const SimWorkloadOptions& options_;
  const WeightedPicker picker_;
  std::vector<int32_t> at_;  // by place, the most popular first
  SimAdapters adapters_;
  double next_change_ = 0.0;
};

std::vector<double> Normalised(std::vector<double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= total;
  return weights;
}

}  // namespace

std::vector<double> StretchWeights(const std::vector<double>& weights, int32_t num_adapters) {
  CHECK(!weights.empty());
  std::vector<double> stretched;
  for (int32_t i = 0; i < num_adapters; ++i) {
    const double place = (i + 0.5) * static_cast<double>(weights.size()) / num_adapters - 0.5;
    const auto below = static_cast<size_t>(std::max(0.0, std::floor(place)));
    const size_t above = std::min(below + 1, weights.size() - 1);
    const double share = std::clamp(place - static_cast<double>(below), 0.0, 1.0);
    stretched.push_back(weights[below] * (1.0 - share) + weights[above] * share);
  }
  return stretched;
}

SimWorkload MakeSimWorkload(const SimWorkloadOptions& options, int32_t context_tokens_max) {
  Random random(options.seed);
  Adapters adapters(options, random);
  Arrivals arrivals(options);
  std::unique_ptr<WeightedPicker> prefixes;
  if (options.num_prefixes > 0) {
    prefixes = std::make_unique<WeightedPicker>(ZipfWeights(options.num_prefixes, 1.0));
  }
  SimWorkload workload;
  const int32_t half = context_tokens_max / 2;
  for (int64_t i = 0; i < options.num_requests; ++i) {
    const double now = arrivals.Next(random);
    SimRequest request;
    request.arrival_ns = static_cast<int64_t>(now * 1e9);
    request.adapter = adapters.Next(now, random);
    const RequestLengths lengths = DrawLengths(options, random);
    request.prompt_tokens = std::min(lengths.prompt_tokens, half);
    if (prefixes != nullptr) {
      request.prefix = prefixes->Pick(random);
      request.prefix_tokens = std::min(options.prefix_tokens, half - request.prompt_tokens);
      request.prompt_tokens += request.prefix_tokens;
    }
    request.output_tokens = std::min(lengths.output_tokens, half);
    workload.requests.push_back(request);
  }
  workload.adapters = adapters.Take();
  workload.output_tokens_told = half;
  return workload;
}

SimWorkload WorkloadOfTrace(const std::vector<TraceRequest>& trace,
                            const SimWorkloadOptions& options, int32_t context_tokens_max) {
  SimWorkload workload;
  const int32_t half = context_tokens_max / 2;
  const auto has_lengths = [](const TraceRequest& one) {
    return one.prompt_tokens > 0 && one.output_tokens > 0;
  };
  const bool draws_lengths = std::none_of(trace.begin(), trace.end(), has_lengths);
  Random random(options.seed);
  for (const TraceRequest& recorded : trace) {
    if (std::ssize(workload.requests) == options.num_requests) break;
    if (!draws_lengths && !has_lengths(recorded)) continue;
    const RequestLengths lengths =
        draws_lengths ? DrawLengths(options, random)
                      : RequestLengths{recorded.prompt_tokens, recorded.output_tokens};
    workload.requests.push_back({.arrival_ns = static_cast<int64_t>(recorded.arrival_seconds * 1e9),
                                 .adapter = recorded.adapter < 0 ? kBaseModel : recorded.adapter,
                                 .prompt_tokens = std::min(lengths.prompt_tokens, half),
                                 .output_tokens = std::min(lengths.output_tokens, half)});
    const auto num_adapters = static_cast<size_t>(recorded.adapter + 1);
    for (size_t i = workload.adapters.ranks.size(); i < num_adapters; ++i) {
      workload.adapters.ranks.push_back(options.ranks[i % options.ranks.size()]);
    }
  }
  workload.output_tokens_told = half;
  return workload;
}

double RateOfPlaces(double load, double fetch_ms, const SimWorkloadOptions& workload,
                    const SimClusterOptions& cluster) {
  const std::vector<double> popularity = PopularityOf(workload);
  double sum = 0.0;
  for (const double one : popularity) sum += one;
  const double places = load * cluster.num_runners * cluster.runner.limits.adapters_max;
  if (places >= workload.num_adapters) return 0.0;
  // An adapter has a request with this probability, where so many are there on average.
  const auto taken = [&](double requests) {
    double num = 0.0;
    for (const double one : popularity) num += 1.0 - std::exp(-requests * one / sum);
    return num;
  };
  double low = 0.0, high = 1.0;
  while (taken(high) < places) high *= 2.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (taken(middle) < places ? low : high) = middle;
  }
  const CostModel& costs = cluster.runner.costs;
  const double load_ms = fetch_ms + costs.LoadMs(static_cast<int32_t>(MeanRankOf(workload)));
  double per_ms = 0.0, answer_ms = 0.0;
  for (int i = 0; i < 60; ++i) {
    const double batch = per_ms * answer_ms / cluster.num_runners;
    answer_ms = MeanOf(workload).output * TokenMsOf(batch, workload, costs);
    per_ms = high / (load_ms + answer_ms);
  }
  return per_ms * 1e3;
}

double RateOfLoad(double load, const SimWorkloadOptions& workload,
                  const SimClusterOptions& cluster) {
  const double batch = cluster.runner.limits.sequences_max;
  const double batch_ms =
      TokenMsOf(batch, workload, cluster.runner.costs) * MeanOf(workload).output;
  return load * cluster.num_runners * batch / batch_ms * 1e3;
}

int64_t RequestsOfHill(double peak_requests_per_second, double seconds) {
  return std::llround(peak_requests_per_second * seconds / 2.0);
}

// By t there have come peak t^2 / seconds of them on the way up; the way down is the same
// backwards.
void BendIntoHill(double peak_requests_per_second, double seconds,
                  std::vector<SimRequest>* requests) {
  const double total = peak_requests_per_second * seconds / 2.0;
  const auto time_of = [&](double count) {
    return std::sqrt(count * seconds / peak_requests_per_second);
  };
  size_t num_kept = 0;
  for (SimRequest& one : *requests) {
    const double count = NsToSeconds(one.arrival_ns);
    if (count >= total) break;
    const double at = count <= total / 2.0 ? time_of(count) : seconds - time_of(total - count);
    one.arrival_ns = std::llround(at * 1e9);
    ++num_kept;
  }
  requests->resize(num_kept);
}

double DrawGamma(double shape, Random& random) {
  CHECK(shape > 0.0);
  if (shape < 1.0) {
    // A Gamma of shape + 1 times U^(1 / shape). U lies above 0.
    const double uniform = 1.0 - random.Uniform();
    return DrawGamma(shape + 1.0, random) * std::pow(uniform, 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double normal = random.Normal();
    const double root = 1.0 + c * normal;
    if (root <= 0.0) continue;
    const double v = root * root * root;
    const double uniform = 1.0 - random.Uniform();
    if (std::log(uniform) < 0.5 * normal * normal + d - d * v + d * std::log(v)) return d * v;
  }
}

std::vector<double> ZipfWeights(int32_t n, double exponent) {
  CHECK(n > 0 && exponent >= 0.0);
  std::vector<double> weights(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) weights[static_cast<size_t>(i)] = std::pow(i + 1.0, -exponent);
  return Normalised(std::move(weights));
}

WeightedPicker::WeightedPicker(const std::vector<double>& weights) : cumulative_(weights.size()) {
  CHECK(!weights.empty());
  std::partial_sum(weights.begin(), weights.end(), cumulative_.begin());
  CHECK(cumulative_.back() > 0.0);
}

int32_t WeightedPicker::Pick(Random& random) const {
  const double at = random.Uniform() * cumulative_.back();
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), at);
  const auto idx = static_cast<int32_t>(found - cumulative_.begin());
  return std::min(idx, static_cast<int32_t>(cumulative_.size()) - 1);
}

}  // namespace graft
