// Workloads: which adapter each request asks for, how long it is and when it arrives. Deterministic
// for a seed. Popularity laws as in Punica (section 7): distinct, uniform, skewed, identical.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/status.h"

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

// A CSV line's fields, none of which has a comma in it.
std::vector<std::string> SplitAtCommas(const std::string& line);

struct RequestLengths {
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
};

// (prompt, output) lengths from a CSV with column names in its first line: the columns with
// "prompt", "input", "context" or "prefill", and "response", "output", "generated" or "decode" in
// their names. Rows with a zero are left out.
Result<std::vector<RequestLengths>> ReadLengths(const std::string& path);

struct Percentiles {
  double mean = 0.0, p50 = 0.0, p90 = 0.0, p95 = 0.0, p99 = 0.0, max = 0.0;
};

// Nearest-rank percentiles; zeros for no values.
Percentiles ComputePercentiles(std::vector<double> values);

}  // namespace graft
