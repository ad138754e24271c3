// When requests arrive and which adapter each asks for, drawn from laws: Poisson and Gamma
// processes, power-law and Zipf popularity. Deterministic for a seed; no thread of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace graft {

// Arrival times in [0, seconds), ascending: gaps Gamma-distributed with mean 1 /
// requests_per_second and coefficient of variation `cv` (S-LoRA, section 6.2); cv 1 is a Poisson
// process, cv 0 a metronome.
std::vector<double> GammaArrivals(double requests_per_second, double cv, double seconds,
                                  Random& random);

// A draw of the Gamma distribution with this shape and scale 1 (Marsaglia and Tsang, 2000).
double DrawGamma(double shape, Random& random);

// Popularity of n adapters, most popular first, adding up to 1.
// The power law of S-LoRA's traces: a request asks for adapter floor(n x), x having the density
// alpha x^(alpha - 1). alpha 1 is uniform; the smaller, the more skewed.
std::vector<double> PowerLawWeights(int32_t n, double alpha);
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
