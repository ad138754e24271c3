// Workloads for benches: which adapter each request asks for and when it arrives, and the value of
// a request by how long its client waits for the first token. Popularity laws are those of Punica
// (section 7: distinct, uniform, skewed, identical) and of S-LoRA's traces. Deterministic for a
// seed; pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "sim/trace.h"

namespace graft {

enum class Popularity {
  kDistinct,   // every request its own adapter (in turn over the adapters there are)
  kUniform,    // ceil(sqrt(n)) adapters, equally popular
  kSkewed,     // ceil(sqrt(n)) adapters, the i-th 1.5 times as popular as the one after it
  kIdentical,  // one adapter for all
};

// For each of n requests the index of its adapter, in [0, num_adapters). num_adapters > 0.
std::vector<int32_t> AssignAdapters(Popularity popularity, int32_t n, int32_t num_adapters,
                                    Random& random);

// n arrival times in seconds: Poisson at `requests_per_second`; all zero (a closed loop) for rate
// 0.
std::vector<double> ArrivalSeconds(int32_t n, double requests_per_second, Random& random);

// Arrival times in [0, seconds), ascending. The gaps are Gamma-distributed with mean 1 /
// requests_per_second and coefficient of variation `cv` (S-LoRA, section 6.2). cv 1 is a Poisson
// process; with cv 0 all gaps are equal.
std::vector<double> GammaArrivals(double requests_per_second, double cv, double seconds,
                                  Random& random);

// The power law of S-LoRA's traces: a request asks for adapter floor(n x), x having the density
// alpha x^(alpha - 1). alpha 1 is uniform; the smaller, the more skewed.
std::vector<double> PowerLawWeights(int32_t n, double alpha);

// The first requests, as many as come in `seconds` at this mean rate, with time stretched so that
// they do.
std::vector<TraceRequest> ScaleTrace(std::vector<TraceRequest> trace, double requests_per_second,
                                     double seconds);

// S-LoRA's bound on the first token's latency (section 6.1).
inline constexpr double kFirstTokenSloMs = 6000.0;
// Stands for a latency where no first token came.
inline constexpr double kNeverMs = 1e300;

// S-LoRA's satisfaction of a user: the mean of 1 - (latency / bound)^2, of 0 past the bound. The
// paper only says that it falls to 0 at the bound; the square is that of its authors' benchmark.
double UserSatisfaction(const std::vector<double>& first_token_ms,
                        double slo_ms = kFirstTokenSloMs);

}  // namespace graft
