// Workloads of simulations: how many adapters, how popular, of which ranks, how long requests are
// and when they come. Deterministic for a seed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "sim/cluster_simulation.h"
#include "sim/trace.h"

namespace graft {

struct SimWorkloadOptions {
  int64_t num_requests = 10'000;
  int32_t num_adapters = 1'000;
  std::vector<int> ranks = {8, 16, 32, 64};  // an adapter's is drawn, all alike
  // How popular adapters are: by Zipf's law with this exponent, or as in these weights (the most
  // popular first), stretched over as many adapters as there are.
  double zipf = 1.0;
  std::vector<double> weights;
  double requests_per_second = 10.0;
  double cv = 1.0;  // of the gaps between arrivals; 1: a Poisson process
  // The rate swings around its mean by this share, once in so many seconds; 0: it does not.
  double day_seconds = 0.0;
  double day_swing = 0.5;
  // From then on, for so long, this share of requests asks for one adapter, the least popular one.
  double crowd_at_seconds = 0.0;
  double crowd_seconds = 0.0;
  double crowd_share = 0.5;
  // After so long on average an adapter is replaced by a new one; 0: never.
  double adapter_life_seconds = 0.0;
  // Lengths in these pairs, drawn all alike; none: geometrically distributed with these means.
  std::vector<RequestLengths> lengths;
  int32_t prompt_tokens = 200;
  int32_t output_tokens = 200;
  // Each adapter's prompts begin as one of so many, as popular as Zipf's law says, for so many
  // tokens; what is theirs alone comes after that. 0: no two begin alike.
  int32_t num_prefixes = 0;
  int32_t prefix_tokens = 512;
  uint64_t seed = 1;
};

// Prompts and answers are cut to half of the runners' context each.
SimWorkload MakeSimWorkload(const SimWorkloadOptions& options, int32_t context_tokens_max);

// A recorded trace's requests at their recorded times, num_requests at most. Requests without
// lengths are left out; if no request has any, all lengths are drawn as for other workloads. The
// trace's adapters have the options' ranks in turns, and longer requests are cut as others are.
SimWorkload WorkloadOfTrace(const std::vector<TraceRequest>& trace,
                            const SimWorkloadOptions& options, int32_t context_tokens_max);

// The share of so many adapters each, from weights of more or fewer, most popular first: the i-th
// has what lies at its place among them.
std::vector<double> StretchWeights(const std::vector<double>& weights, int32_t num_adapters);

// How many requests a second keep the share `load` of all places for adapters taken, if each
// adapter is in one place. A request takes its adapter's place from its arrival to its end,
// including a load of `fetch_ms` on average. 0: there are as many places as adapters.
double RateOfPlaces(double load, double fetch_ms, const SimWorkloadOptions& workload,
                    const SimClusterOptions& cluster);

// Requests a second that fill this share of the runners' batches, by the costs of a full one.
double RateOfLoad(double load, const SimWorkloadOptions& workload,
                  const SimClusterOptions& cluster);

// A load that rises and falls, as in Punica's Figure 13: arrivals of an even process are bent so
// that their rate climbs from 0 to a peak in the middle, and back.

// Requests that come in so many seconds, at this rate in the middle.
int64_t RequestsOfHill(double peak_requests_per_second, double seconds);

// `requests` come evenly, one a second in the mean. Those that would come after the hill's end are
// left out.
void BendIntoHill(double peak_requests_per_second, double seconds,
                  std::vector<SimRequest>* requests);

// A draw of the Gamma distribution with this shape and scale 1 (Marsaglia and Tsang, 2000).
double DrawGamma(double shape, Random& random);

// Popularity of n adapters, most popular first, adding up to 1.
// The i-th of them (from 1) is i^-exponent as popular as the first; 0 is uniform.
std::vector<double> ZipfWeights(int32_t n, double exponent);

// Draws indices by weight; weights need not add up to 1.
class WeightedPicker {
 public:
  explicit WeightedPicker(const std::vector<double>& weights);
  int32_t Pick(Random& random) const;

 private:
  std::vector<double> cumulative_;
};

}  // namespace graft
