#include "runtime/quantised_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "model/weights.h"

namespace graft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string PathOf(const std::string& folder) {
  return std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/" + folder;
}
constexpr char kNf4[] = "tests/goldens/quantised/nf4";

ServedShape ShapeOf(const ModelConfig& config, DType dtype) {
  return {.config = config, .types = TypesOf(dtype), .device = {}, .num_ranks = 1};
}

TEST(QuantisedNoteTest, SaysFormatAndBytes) {
  const ModelConfig config = *LoadModelConfig(PathOf(kNf4));
  EXPECT_EQ(*QuantisedNote(PathOf(kNf4), ShapeOf(config, DType::kBF16)),
            "the base is NF4 of bitsandbytes, 1 MiB in its files; its weights become bf16 while "
            "they are read, 2 MiB in memory");
  ModelConfig other = config;
  other.quantisation->read_over = {"kv_cache_scheme"};
  EXPECT_THAT(*QuantisedNote(PathOf(kNf4), ShapeOf(other, DType::kF32)),
              AllOf(HasSubstr("become fp32"), HasSubstr("not applied"),
                    HasSubstr("quantization_config.kv_cache_scheme")));
  EXPECT_EQ(QuantisedNote("/nowhere", ShapeOf(config, DType::kBF16)).status().code(),
            StatusCode::kNotFound);
}

TEST(QuantisedNoteTest, PlainNumbersNeedNone) {
  const std::string folder = PathOf("tests/goldens/llama");
  const ModelConfig config = *LoadModelConfig(folder);
  EXPECT_EQ(*QuantisedNote(folder, ShapeOf(config, DType::kBF16)), "");
  EXPECT_EQ(QuantisedWord(config), "");
  EXPECT_EQ(QuantisedWord(*LoadModelConfig(PathOf(kNf4))), "NF4-of-bitsandbytes");
}

// On a CPU plain numbers are packed out of the mapped files, and what codes become is not.
TEST(QuantisedNoteTest, TheSumOfMemoryHasWhatReadingTakes) {
  ModelConfig config = *LoadModelConfig(PathOf(kNf4));
  const ServedShape shape = ShapeOf(config, DType::kBF16);
  MemorySum codes{Device{}};
  AddWeights(shape, /*drawn=*/false, &codes);
  config.quantisation.reset();
  MemorySum numbers{Device{}};
  AddWeights(shape, /*drawn=*/false, &numbers);
  EXPECT_EQ(codes.on_device() - numbers.on_device(), WeightsReadingBytes(config, shape.types));
}

TEST(QuantisedNoteTest, CodesThatAreKeptAreNamedOnEveryDevice) {
  const ModelConfig config = *LoadModelConfig(PathOf(kNf4));
  const Device gpu = {DeviceKind::kCuda, 0};
  for (const Device& device : {Device{}, gpu}) {
    ServedTypes types = TypesOf(DType::kBF16, device);
    const int64_t numbers = WeightsBytes(config, types, device);
    types.keeps_codes = true;
    const ServedShape shape = {.config = config, .types = types, .device = device, .num_ranks = 1};
    EXPECT_THAT(*QuantisedNote(PathOf(kNf4), shape),
                HasSubstr("its weights stay codes where kernels take them, and else become bf16"));
    EXPECT_LT(WeightsBytes(config, types, device), numbers);
    if (!device.is_cpu()) continue;  // where the driver's memory hides a small model's
    MemorySum sum(device);
    AddWeights(shape, /*drawn=*/false, &sum);
    EXPECT_THAT(sum.ToString(), HasSubstr("weights in NF4 of bitsandbytes (--weights)"));
  }
}

}  // namespace
}  // namespace graft
