#include "base/random.h"

#include <cmath>
#include <random>

namespace graft {

double Random::Normal() {
  const double u = 1.0 - Uniform();  // in (0, 1], so the logarithm is finite
  const double v = Uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * M_PI * v);
}

double Random::Exponential() { return -std::log(1.0 - Uniform()); }

uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace graft
