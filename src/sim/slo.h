// What a client's waiting for the first token is worth, as S-LoRA defines it (section 6.1). Pure
// functions.
#pragma once

#include <vector>

namespace graft {

// S-LoRA's bound on the first token's latency.
inline constexpr double kFirstTokenSloMs = 6000.0;
// Stands for a latency where no first token came.
inline constexpr double kNeverMs = 1e300;

// The share of latencies within the bound; 0 of none.
double SloAttainment(const std::vector<double>& first_token_ms, double slo_ms = kFirstTokenSloMs);
// The mean of 1 - (latency / bound)^2, of 0 past the bound. The paper only says that it falls to 0
// at the bound; the square is that of its authors' benchmark.
double UserSatisfaction(const std::vector<double>& first_token_ms,
                        double slo_ms = kFirstTokenSloMs);

}  // namespace graft
