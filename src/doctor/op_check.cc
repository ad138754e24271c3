#include "doctor/op_check.h"

#include <fmt/core.h>

#include <cmath>

namespace graft {
namespace {

constexpr double kSmallestStep = 0x1p-24;  // fp16's numbers below 2^-14 lie so far apart

}  // namespace

void Comparison::Expect(std::string_view what, int64_t index, double actual, double expected,
                        double magnitude) {
  ++num_compared_;
  // A NaN is within no bound.
  const bool is_close = std::fabs(actual - expected) <= tolerance_ * magnitude + kSmallestStep;
  if (is_close || !is_equal()) return;
  first_difference_ = fmt::format("{} {}: {} instead of {}", what, index, actual, expected);
}

std::span<const OpCheck> AllOpChecks() {
  static constexpr OpCheck kChecks[] = {{"embedding", CheckEmbedding},
                                        {"rms_norm", CheckRmsNorm},
                                        {"gemm", CheckGemm},
                                        {"lora", CheckLora},
                                        {"gemm with lora", CheckGemmWithLora},
                                        {"rope_kv_write", CheckRopeKvWrite},
                                        {"attention, decode", CheckDecodeAttention},
                                        {"attention, prompts", CheckPromptAttention},
                                        {"gated_activation", CheckGatedActivation},
                                        {"sampling", CheckSampling}};
  return kChecks;
}

}  // namespace graft
