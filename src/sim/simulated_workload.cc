#include "sim/simulated_workload.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sim/arrivals.h"

namespace graft {
namespace {

// Geometric with this mean, 1 at least.
int32_t DrawLength(int32_t mean, Random& random) {
  if (mean <= 1) return 1;
  const double drawn = random.Exponential() * (mean - 0.5) + 0.5;
  return std::max(1, static_cast<int32_t>(std::lround(drawn)));
}

struct MeanLengths {
  double prompt = 0.0, output = 0.0;
};

MeanLengths MeanOf(const SimWorkloadOptions& options) {
  if (options.lengths.empty()) {
    return {double{1} * options.prompt_tokens, double{1} * options.output_tokens};
  }
  MeanLengths mean;
  for (const RequestLengths& one : options.lengths) {
    mean.prompt += one.prompt_tokens;
    mean.output += one.output_tokens;
  }
  const auto count = static_cast<double>(options.lengths.size());
  return {mean.prompt / count, mean.output / count};
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

SimWorkload MakeSimWorkload(const SimWorkloadOptions& options) {
  Random random(options.seed);
  SimWorkload workload;
  for (int32_t i = 0; i < options.num_adapters; ++i) {
    workload.adapters.ranks.push_back(options.ranks[random.Below(options.ranks.size())]);
  }
  const WeightedPicker picker(options.weights.empty()
                                  ? ZipfWeights(options.num_adapters, options.zipf)
                                  : StretchWeights(options.weights, options.num_adapters));
  double now = 0.0;
  const double mean_gap = 1.0 / options.requests_per_second;
  const double shape = options.cv > 0.0 ? 1.0 / (options.cv * options.cv) : 0.0;
  const int32_t half = options.context_tokens_max / 2;
  for (int64_t i = 0; i < options.num_requests; ++i) {
    now += options.cv > 0.0 ? DrawGamma(shape, random) / shape * mean_gap : mean_gap;
    SimRequest request;
    request.arrival_ns = static_cast<int64_t>(now * 1e9);
    request.adapter = picker.Pick(random);
    RequestLengths lengths = {DrawLength(options.prompt_tokens, random),
                              DrawLength(options.output_tokens, random)};
    if (!options.lengths.empty()) lengths = options.lengths[random.Below(options.lengths.size())];
    request.prompt_tokens = std::min(lengths.prompt_tokens, half);
    request.output_tokens = std::min(lengths.output_tokens, half);
    workload.requests.push_back(request);
  }
  workload.output_tokens_told = half;
  return workload;
}

double RateOfLoad(double load, const SimWorkloadOptions& workload,
                  const SimClusterOptions& cluster) {
  const MeanLengths mean = MeanOf(workload);
  double mean_rank = 0.0;
  for (const int rank : workload.ranks) mean_rank += rank;
  mean_rank /= static_cast<double>(workload.ranks.size());
  const int32_t batch = cluster.runner.batch_max;
  StepWork full;
  for (int32_t i = 0; i < batch; ++i) full.ranks.Add(static_cast<int32_t>(mean_rank));
  full.context_tokens = static_cast<int64_t>(batch * (mean.prompt + mean.output / 2));
  const CostModel& costs = cluster.runner.costs;
  // While a batch of answers is drawn, as many prompts are computed.
  const double batch_ms =
      costs.StepMs(full) * mean.output + costs.step_ms_per_prompt_token * mean.prompt * batch;
  return load * cluster.num_runners * batch / batch_ms * 1e3;
}

}  // namespace graft
