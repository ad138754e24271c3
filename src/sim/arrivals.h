// What workloads are drawn from: the gaps between requests and the popularity of adapters.
// Deterministic for a seed; no thread of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace graft {

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
