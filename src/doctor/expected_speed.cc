#include "doctor/expected_speed.h"

namespace graft {
namespace {

// Llama-3.1-8B: what a step reads of the weights, all but the embeddings' table; a position's keys
// and values; the operations of a prompt's token, a product and a sum for each number of the
// layers' matrices.
constexpr double kLayerNumbers = 6.98e9;
constexpr double kWeightBytes = 2 * (kLayerNumbers + 0.525e9);
constexpr double kPositionBytes = 32 * 2 * 8 * 128 * 2;
constexpr double kContext = 512;
constexpr double kPromptTokens = 2048;

constexpr FamilyShares kHopper{.family = "hopper",
                               .decode = 0.89,
                               .prompt = 0.87,
                               .measured_on = "one H200, docs/benchmarks.md",
                               .is_tuned = true};
// The kernels of cards without Hopper's instructions, as they ran on an H100 that was told to be an
// A100 (docs/inside/gpu.md).
constexpr FamilyShares kGeneral{.family = "general",
                                .decode = 0.064,
                                .prompt = 0.027,
                                .measured_on = "one H100 with GRAFT_GPU_FAMILY=ampere"};

}  // namespace

const FamilyShares& SharesOf(const DeviceTraits& traits) {
  return traits.has_hopper_code ? kHopper : kGeneral;
}

ExpectedSpeed ExpectSpeed(const CardRates& rates, const FamilyShares& shares) {
  const auto decode_ms = [&](double sequences) {
    const double bytes = kWeightBytes + sequences * kContext * kPositionBytes;
    return bytes / (rates.gbytes_per_s * 1e9 * shares.decode) * 1e3;
  };
  const double operations = 2 * kLayerNumbers * kPromptTokens;
  return {.decode_ms_of_1 = decode_ms(1),
          .decode_ms_of_32 = decode_ms(32),
          .prompt_ms = operations / (rates.bf16_gflops * 1e9 * shares.prompt) * 1e3};
}

}  // namespace graft
