#include "sim/arrivals.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace graft {
namespace {

std::vector<double> Normalised(std::vector<double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= total;
  return weights;
}

}  // namespace

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
