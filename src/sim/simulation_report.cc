#include "sim/simulation_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/milliseconds.h"

namespace graft {
namespace {

constexpr double kSecondsPerHour = 3600.0;

OrderedJson LatencyJson(const std::vector<double>& ms) {
  if (ms.empty()) return OrderedJson();
  const Percentiles of = ComputePercentiles(ms);
  return {{"mean", of.mean}, {"p50", of.p50}, {"p90", of.p90},
          {"p95", of.p95},   {"p99", of.p99}, {"max", of.max}};
}

OrderedJson RunnersJson(const SimResult& result) {
  SimRunnerFigures sum;
  int64_t most = 0, num_used = 0;
  for (const SimRunnerFigures& one : result.runners) {
    sum.requests += one.requests;
    sum.steps += one.steps;
    sum.output_tokens += one.output_tokens;
    sum.busy_seconds += one.busy_seconds;
    sum.adapter_copies += one.adapter_copies;
    sum.adapter_fetches += one.adapter_fetches;
    sum.adapter_evictions += one.adapter_evictions;
    sum.preemptions += one.preemptions;
    sum.prefix_lookup_tokens += one.prefix_lookup_tokens;
    sum.prefix_hit_tokens += one.prefix_hit_tokens;
    most = std::max(most, one.requests);
    num_used += one.steps > 0 ? 1 : 0;
  }
  const double mean =
      static_cast<double>(sum.requests) / static_cast<double>(result.runners.size());
  return {{"runners_used", num_used},
          {"runner_hours", sum.busy_seconds / kSecondsPerHour},
          {"most_requests_over_mean", mean > 0.0 ? static_cast<double>(most) / mean : 0.0},
          {"steps", sum.steps},
          {"tokens_a_step", sum.steps == 0 ? 0.0
                                           : static_cast<double>(sum.output_tokens) /
                                                 static_cast<double>(sum.steps)},
          {"adapter_copies", sum.adapter_copies},
          {"adapter_copies_a_request", sum.requests == 0 ? 0.0
                                                         : static_cast<double>(sum.adapter_copies) /
                                                               static_cast<double>(sum.requests)},
          {"adapter_fetches", sum.adapter_fetches},
          {"adapter_evictions", sum.adapter_evictions},
          {"prompt_tokens_cached", sum.prefix_lookup_tokens == 0
                                       ? 0.0
                                       : static_cast<double>(sum.prefix_hit_tokens) /
                                             static_cast<double>(sum.prefix_lookup_tokens)},
          {"preemptions", sum.preemptions}};
}

}  // namespace

OrderedJson SimulationJson(const SimWorkload& workload, const SimClusterOptions& options,
                           const SimResult& result) {
  std::vector<double> first, token, latency;
  int64_t num_refused = 0;
  const double slo_ms = options.placement.SloMs();
  for (size_t i = 0; i < result.outcomes.size(); ++i) {
    const SimRequest& asked = workload.requests[i];
    const SimOutcome& outcome = result.outcomes[i];
    num_refused += outcome.is_refused ? 1 : 0;
    if (outcome.is_refused || NsToSeconds(asked.arrival_ns) < options.warm_seconds) continue;
    first.push_back(NsToMs(outcome.first_ns - asked.arrival_ns));
    latency.push_back(NsToMs(outcome.end_ns - asked.arrival_ns));
    if (asked.output_tokens < 2) continue;
    token.push_back(NsToMs(outcome.end_ns - outcome.first_ns) / (asked.output_tokens - 1));
  }
  OrderedJson json = {{"placement", NameOf(options.placement.kind)},
                      {"seconds", NsToSeconds(result.end_ns)},
                      {"requests", std::ssize(result.outcomes)},
                      {"counted", std::ssize(latency)},
                      {"refused", num_refused},
                      {"waited_in_line", result.waited_in_line},
                      {"failures", result.failures},
                      {"moves", result.moves},
                      {"first_token_ms", LatencyJson(first)},
                      {"token_ms", LatencyJson(token)},
                      {"latency_ms", LatencyJson(latency)},
                      {"slo_ms", slo_ms},
                      {"slo_attainment", SloAttainment(token, slo_ms)}};
  json.update(RunnersJson(result));
  if (options.scaling.is_on) {
    json.update({{"paid_runner_hours", result.paid_seconds / kSecondsPerHour},
                 {"starts", result.starts},
                 {"most_runners", result.paid_max}});
  }
  return json;
}

Percentiles ComputePercentiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto rank = [&](double share) {
    const auto idx = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<size_t>(idx, 1) - 1];
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {.mean = sum / static_cast<double>(values.size()),
          .p50 = rank(0.5),
          .p90 = rank(0.9),
          .p95 = rank(0.95),
          .p99 = rank(0.99),
          .max = values.back()};
}

double SloAttainment(const std::vector<double>& first_token_ms, double slo_ms) {
  if (first_token_ms.empty()) return 0.0;
  const auto met = std::count_if(first_token_ms.begin(), first_token_ms.end(),
                                 [slo_ms](double latency_ms) { return latency_ms <= slo_ms; });
  return static_cast<double>(met) / static_cast<double>(first_token_ms.size());
}

}  // namespace graft
