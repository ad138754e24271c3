#include "executor/arithmetic_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace graft {
namespace {

using ::testing::HasSubstr;

std::string IdOf(const ServedTypes& types) {
  return MakeArithmeticId(Device{}, {.types = types, .page_tokens = 16, .ranks = 2});
}

// Servers of earlier versions are compared with: their text must stay.
TEST(ArithmeticIdTest, TypesThatAreAllAlikeAreOneWord) {
  EXPECT_THAT(IdOf(TypesOf(DType::kBF16)), HasSubstr(" bf16 kv-fp16 page16 ranks2"));
  EXPECT_THAT(IdOf(TypesOf(DType::kF32)), HasSubstr(" fp32 kv-fp32 page16 ranks2"));
}

TEST(ArithmeticIdTest, EveryTypeThatDiffersStandsInIt) {
  ServedTypes types = TypesOf(DType::kBF16);
  types.embeddings = DType::kF32;
  EXPECT_THAT(IdOf(types), HasSubstr(" bf16 embeddings-fp32 kv-fp16"));
  types = TypesOf(DType::kBF16);
  types.adapters = DType::kF32;
  EXPECT_THAT(IdOf(types), HasSubstr(" bf16 adapters-fp32 kv-fp16"));
  types = TypesOf(DType::kBF16);
  types.weights = WeightFormat::Integers(DType::kBF16, 4, 128);
  EXPECT_THAT(IdOf(types), HasSubstr(" bf16 weights-int4-of-128 kv-fp16"));
  types.weights = WeightFormat::Normal4(DType::kBF16);
  EXPECT_THAT(IdOf(types), HasSubstr(" bf16 weights-nf4-of-64 kv-fp16"));
  types.weights = DType::kF32;
  EXPECT_THAT(IdOf(types), HasSubstr(" bf16 weights-fp32 kv-fp16"));
}

TEST(ArithmeticIdTest, TheFormatOfTheBaseStandsInIt) {
  EXPECT_THAT(MakeArithmeticId(Device{}, {.types = TypesOf(DType::kBF16),
                                          .page_tokens = 16,
                                          .base_codes = "NF4-of-bitsandbytes"}),
              HasSubstr(" bf16 kv-fp16 base-NF4-of-bitsandbytes page16"));
}

TEST(ArithmeticIdTest, AGpuIsNamedByWhatItsBitsDependOn) {
  DeviceTraits card = {.compute = 90, .has_hopper_code = true};
  EXPECT_EQ(GpuArithmetic(card), "hopper") << "the text of earlier versions";
  EXPECT_EQ(GpuArithmetic(LoweredTo("ampere", card)), "sm90-as-ampere");
  EXPECT_EQ(GpuArithmetic(LoweredTo("sm100", card)), "sm90-as-sm100");
  card.has_hopper_code = false;
  EXPECT_EQ(GpuArithmetic(card), "sm90") << "a build without Hopper's kernels";
  for (const int compute : {80, 86, 89, 100, 120}) {
    EXPECT_EQ(GpuArithmetic({.compute = compute}), "sm" + std::to_string(compute));
  }
}

}  // namespace
}  // namespace graft
