// What a card should reach with this binary's kernels: a model of few numbers, the card's rates and
// the shares of them that its kernels reach. Rates are measured (`graft doctor`), or taken from a
// data sheet (docs/gpu.md). Plain data; any thread.
#pragma once

#include <span>
#include <string_view>

#include "tensor/device_traits.h"

namespace graft {

// As measured on a card itself (kernels/peak/peak.h).
struct CardRates {
  double gbytes_per_s = 0.0;  // of a large copy, read and written
  double bf16_gflops = 0.0;   // of a large product of ours
};

// How much of a card's rates one family of kernels reaches, and where that was measured.
struct FamilyShares {
  std::string_view family;       // "hopper", "general", "general, overlapped"
  double sheet_copy = 0.0;       // a large copy, of the data sheet's bandwidth
  double sheet_product = 0.0;    // a large product of ours, of the data sheet's bf16 rate
  double decode_of_1 = 0.0;      // of the time that a copy takes for a step's bytes
  double decode_of_32 = 0.0;     // the same of a batch of 32
  double prompt = 0.0;           // of the time that large products take for a prompt's operations
  std::string_view measured_on;  // and with which kernels
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

// A card by what NVIDIA says of it.
struct KnownCard {
  std::string_view name;  // as a part of what its driver calls it
  int compute = 0;        // capability, 10 * major + minor
  double memory_gb = 0.0;
  double gbytes_per_s = 0.0;
  // Dense bf16 products with sums in fp32: on GeForce cards half of the number for sums in fp16.
  double bf16_tflops = 0.0;
  std::string_view source;
  // Instructions of its own multiply so fast, and ours at an older, slower rate: decode alone is
  // predicted.
  bool is_decode_alone = false;
  // What `graft doctor` and `graft-bench step` said on an owner's card, for the page.
  std::string_view seen = "none yet";
};
std::span<const KnownCard> KnownCards();
// The card with this name as a word of it, "NVIDIA GeForce RTX 4090"; null: none of them, as "...
// Ti", or a card of that number with other memory.
const KnownCard* FindKnownCard(std::string_view description);

// The traits that the archive of `make dist` gives it, as far as shares depend on them.
DeviceTraits TraitsOfKnown(const KnownCard& card);
// What `graft doctor` should measure there.
CardRates SheetRates(const KnownCard& card, const FamilyShares& shares);
// Prompts are 0 where decode alone is predicted.
ExpectedSpeed PredictSpeed(const KnownCard& card);

// GiB of its memory that are left for pages: of what programs usually find free, beside the weights
// and what a step computes in.
double PoolGibOf(const KnownCard& card);

}  // namespace graft
