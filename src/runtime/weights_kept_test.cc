// What a base's weights are kept as, by what was asked for, its folder and the device.
#include "runtime/weights_kept.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "kernels/gemm/gemm_bricks.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

constexpr Device kGpu{DeviceKind::kCuda, 0};

Result<ServedTypes> Chosen(WeightsKept weights, const ModelConfig& config, DType dtype,
                           const Device& device, std::optional<DType> asked = std::nullopt) {
  RuntimeOptions options;
  options.weights = weights;
  options.dtype = asked;
  return ChooseServedTypes(options, config, dtype, device);
}

ModelConfig Quantised() {
  ModelConfig config;
  config.quantisation.emplace().text = "NF4 of bitsandbytes";
  return config;
}

TEST(WeightsKeptTest, EveryDeviceKeepsTheCodesOfAFolder) {
  for (const Device& device : {Device{}, kGpu}) {
    const auto kept = Chosen(WeightsKept::kAuto, Quantised(), DType::kBF16, device);
    EXPECT_TRUE(kept->keeps_codes);
    EXPECT_EQ(kept->weights, DType::kBF16) << "what kernels do not take becomes numbers";
    EXPECT_EQ(ServedWeightsText(Quantised(), *kept), "NF4 of bitsandbytes");
    const auto plain = Chosen(WeightsKept::kPlain, Quantised(), DType::kBF16, device);
    EXPECT_FALSE(plain->has_codes());
    EXPECT_EQ(ServedWeightsText(Quantised(), *plain), "bf16");
    EXPECT_FALSE(Chosen(WeightsKept::kAuto, {}, DType::kBF16, device)->has_codes());
    const auto fp32 = Chosen(WeightsKept::kAuto, Quantised(), DType::kF32, device, DType::kF32);
    EXPECT_FALSE(fp32->has_codes());
  }
}

TEST(WeightsKeptTest, EveryDeviceMakesCodesOfNumbersAlone) {
  for (const Device& device : {Device{}, kGpu}) {
    for (const WeightsKept made : {WeightsKept::kInt4, WeightsKept::kInt8, WeightsKept::kNf4}) {
      const auto types = Chosen(made, {}, DType::kBF16, device);
      ASSERT_TRUE(types.ok()) << types.status().ToString();
      EXPECT_FALSE(types->weights.is_plain());
      EXPECT_TRUE(types->has_codes());
      EXPECT_FALSE(types->keeps_codes);
      const auto refused = Chosen(made, Quantised(), DType::kBF16, device);
      EXPECT_THAT(refused.status().ToString(), HasSubstr("the model is NF4 of bitsandbytes"));
    }
  }
}

TEST(WeightsKeptTest, AGpuMultipliesCodesInBf16Alone) {
  const auto refused = Chosen(WeightsKept::kInt4, {}, DType::kF16, kGpu);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("add --dtype bf16"));
  const auto numbers = Chosen(WeightsKept::kAuto, Quantised(), DType::kF16, kGpu);
  EXPECT_FALSE(numbers->has_codes());
  EXPECT_EQ(ServedWeightsText(Quantised(), *numbers), "fp16");
}

// What is made of plain numbers has scales of two bytes on a GPU.
TEST(WeightsKeptTest, IntegersThatAreMadeHaveNarrowScales) {
  for (const WeightsKept kept : {WeightsKept::kInt4, WeightsKept::kInt8}) {
    const auto types = Chosen(kept, {}, DType::kBF16, kGpu);
    EXPECT_TRUE(HasNarrowScales(types->weights, 4096));
  }
}

}  // namespace
}  // namespace graft
