// What a card should reach with this binary's kernels: a model of few numbers, the card's measured
// rates and the shares of them that its kernels reach. Plain data; any thread.
#pragma once

#include <string_view>

#include "tensor/device_traits.h"

namespace graft {

// Measured on the card itself (kernels/peak/peak.h).
struct CardRates {
  double gbytes_per_s = 0.0;  // of a large copy, read and written
  double bf16_gflops = 0.0;   // of a large product
};

// How much of a card's rates one family of kernels reaches, and where that was measured.
struct FamilyShares {
  std::string_view family;  // "hopper", "general"
  double decode = 0.0;      // of the time that memory takes for a step's bytes
  double prompt = 0.0;      // of the time that products take for a prompt's operations
  std::string_view measured_on;
  bool is_tuned = false;
};
const FamilyShares& SharesOf(const DeviceTraits& traits);

// Llama-3.1-8B in bf16 without adapters, sequences of 512 tokens and prompts of 2,048.
struct ExpectedSpeed {
  double decode_ms_of_1 = 0.0;   // a step of one sequence
  double decode_ms_of_32 = 0.0;  // and of 32
  double prompt_ms = 0.0;
};
ExpectedSpeed ExpectSpeed(const CardRates& rates, const FamilyShares& shares);

}  // namespace graft
