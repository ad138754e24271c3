#include "base/random.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <cmath>

#include "base/check.h"

namespace graft {

double Random::Normal() {
  const double u = 1.0 - Uniform();  // in (0, 1], so the logarithm is finite
  const double v = Uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * M_PI * v);
}

double Random::Exponential() { return -std::log(1.0 - Uniform()); }

uint64_t RandomSeed() {
  // Not std::random_device, which asks for the processor's features each time: on a virtual machine
  // that takes microseconds.
  uint64_t seed = 0;
  CHECK_EQ(::getrandom(&seed, sizeof(seed), 0), static_cast<ssize_t>(sizeof(seed)));
  return seed;
}

std::string RandomHex(int num_seeds) {
  std::string digits;
  for (int i = 0; i < num_seeds; ++i) digits += fmt::format("{:016x}", RandomSeed());
  return digits;
}

std::string RandomName(const char* prefix) { return prefix + RandomHex(2); }

}  // namespace graft
