// Random numbers that depend on (seed, counter) alone, so that a draw is the same on every device,
// whatever else runs beside it. The class Random is a small stateful generator on top, for
// workloads and tests.
#pragma once

#include <cstdint>
#include <string>

namespace graft {

// SplitMix64's finaliser over both words: a stateless hash good enough to draw samples from.
constexpr uint64_t RandomBits(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + 0x9e3779b97f4a7c15ULL * (counter + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  return z ^ (z >> 29);
}

// Uniform in [0, 1) with 53 bits.
constexpr double RandomUniform(uint64_t seed, uint64_t counter) {
  return static_cast<double>(RandomBits(seed, counter) >> 11) * 0x1.0p-53;
}

// Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t Bits() { return RandomBits(seed_, counter_++); }
  double Uniform() { return RandomUniform(seed_, counter_++); }
  // Uniform in [0, n), n > 0.
  uint64_t Below(uint64_t n) { return static_cast<uint64_t>(Uniform() * static_cast<double>(n)); }
  // Standard normal (Box-Muller, one of the pair).
  double Normal();
  // Exponential with mean 1, for Poisson arrivals.
  double Exponential();

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

// A seed from the operating system.
uint64_t RandomSeed();

// `num_seeds` of them in hexadecimal, 16 digits each.
std::string RandomHex(int num_seeds);

// "prefix" and 32 random hexadecimal digits, for what is told apart by its name alone: requests,
// answers, their parts.
std::string RandomName(const char* prefix);

}  // namespace graft
