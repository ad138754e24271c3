#include "adapters/lora_effect.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adapters/adapter_test_util.h"

namespace graft {
namespace {

using testing::BytesOf;
using testing::FileOf;
using testing::LoraTestTensors;
using testing::OddModel;
using testing::Peft;
using testing::TestTensor;

// The tensors with `part` in their name hold `value` everywhere.
bool Effect(const std::string& config, const std::string& part, float value, DType dtype) {
  const ModelConfig model = OddModel();
  const PeftConfig peft = Peft(config);
  std::vector<TestTensor> tensors = LoraTestTensors(peft, model);
  for (TestTensor& tensor : tensors) {
    if (part.empty() || tensor.name.find(part) == std::string::npos) continue;
    tensor.data = BytesOf(std::vector<float>(tensor.data.size() / sizeof(float), value));
  }
  return !ChangesNothing(*LoraWeights::Load(FileOf(tensors), peft, model, dtype), model);
}

TEST(LoraEffectTest, AnAdapterWithoutAOrBOrScaleHasNone) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    EXPECT_TRUE(Effect("\"r\": 2", "", 0.0f, dtype));
    EXPECT_FALSE(Effect("\"r\": 2", "lora_A", 0.0f, dtype));
    EXPECT_FALSE(Effect("\"r\": 2", "lora_B", -0.0f, dtype));
    EXPECT_FALSE(Effect("\"r\": 2", "lora_", 0.0f, dtype));
    EXPECT_FALSE(Effect("\"r\": 2, \"lora_alpha\": 0", "", 0.0f, dtype));
    EXPECT_TRUE(Effect("\"r\": 2", "q_proj.lora_B", 0.0f, dtype));
    EXPECT_TRUE(Effect("\"r\": 2, \"alpha_pattern\": {\"q_proj\": 0}", "", 0.0f, dtype));
  }
}

TEST(LoraEffectTest, WhatRoundsToZeroIsZero) {
  EXPECT_FALSE(Effect("\"r\": 2", "lora_B", 1e-42f, DType::kBF16));
  EXPECT_FALSE(Effect("\"r\": 2", "lora_B", 1e-9f, DType::kF16));
  EXPECT_TRUE(Effect("\"r\": 2", "lora_B", 1e-42f, DType::kF32));
}

}  // namespace
}  // namespace graft
