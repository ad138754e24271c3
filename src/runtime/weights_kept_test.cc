// What a base's weights are kept as, by what was asked for, its folder and the device.
#include "runtime/weights_kept.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/gemm/gemm_bricks.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

constexpr Device kGpu{DeviceKind::kCuda, 0};

// What is chosen with GRAFT_GPU_CODES=1, and without it.
Result<ServedTypes> Chosen(WeightsKept weights, bool tried, const ModelConfig& config, DType dtype,
                           const Device& device) {
  RuntimeOptions options;
  options.weights = weights;
  setenv("GRAFT_GPU_CODES", tried ? "1" : "0", 1);
  Result<ServedTypes> types = ChooseServedTypes(options, config, dtype, device);
  unsetenv("GRAFT_GPU_CODES");
  return types;
}

ModelConfig Quantised() {
  ModelConfig config;
  config.quantisation.emplace().text = "NF4 of bitsandbytes";
  return config;
}

TEST(WeightsKeptTest, AGpuHasNumbersUnlessItIsTried) {
  const ModelConfig plain;
  for (const WeightsKept kept : {WeightsKept::kInt4, WeightsKept::kInt8, WeightsKept::kNf4}) {
    const auto refused = Chosen(kept, false, plain, DType::kBF16, kGpu);
    EXPECT_THAT(refused.status().ToString(), HasSubstr("a GPU computes with numbers so far"));
    const auto tried = Chosen(kept, true, plain, DType::kBF16, kGpu);
    ASSERT_TRUE(tried.ok()) << tried.status().ToString();
    EXPECT_FALSE(tried->weights.is_plain());
    EXPECT_TRUE(tried->has_codes());
  }
  const auto quantised = Quantised();
  EXPECT_FALSE(Chosen(WeightsKept::kAuto, false, quantised, DType::kBF16, kGpu)->has_codes());
  EXPECT_TRUE(Chosen(WeightsKept::kAuto, true, quantised, DType::kBF16, kGpu)->keeps_codes);
  EXPECT_FALSE(Chosen(WeightsKept::kPlain, true, quantised, DType::kBF16, kGpu)->has_codes());
}

TEST(WeightsKeptTest, AGpuMultipliesCodesInBf16Alone) {
  const auto refused = Chosen(WeightsKept::kInt4, true, {}, DType::kF16, kGpu);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("add --dtype bf16"));
  EXPECT_FALSE(Chosen(WeightsKept::kAuto, true, Quantised(), DType::kF16, kGpu)->has_codes());
}

// The CPU's choice is no matter of the switch.
TEST(WeightsKeptTest, TheCpuKeepsCodes) {
  for (const bool tried : {false, true}) {
    const auto types = Chosen(WeightsKept::kAuto, tried, Quantised(), DType::kBF16, {});
    EXPECT_TRUE(types->keeps_codes);
  }
}

// What is made of plain numbers has scales of two bytes on a GPU.
TEST(WeightsKeptTest, IntegersThatAreMadeHaveNarrowScales) {
  for (const WeightsKept kept : {WeightsKept::kInt4, WeightsKept::kInt8}) {
    const auto types = Chosen(kept, true, {}, DType::kBF16, kGpu);
    EXPECT_TRUE(HasNarrowScales(types->weights, 4096));
  }
}

}  // namespace
}  // namespace graft
