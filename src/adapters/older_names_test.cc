#include "adapters/older_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "adapters/lora_weights.h"
#include "adapters/merged_file.h"

namespace graft {
namespace older_names_test {

using testing::BytesOf;
using testing::FileOf;
using ::testing::HasSubstr;
using testing::Peft;
using testing::SourcePath;
using testing::TestTensor;

constexpr char kOlderTargets[] =
    R"("r": 2, "target_modules": ["Wqkv", "out_proj", "fc1"], "rank_pattern": {"out_proj": 3})";

// Phi's: hidden 32, q 32, k and v 16, MLP 80, two layers.
ModelConfig PhiModel() { return *LoadModelConfig(SourcePath("tests/goldens/phi")); }

// Values that tell their place: 1000 * which + element.
TestTensor Numbered(const std::string& name, int64_t rows, int64_t columns, float which) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1000.0f * which + static_cast<float>(i);
  return {name, "F32", {rows, columns}, BytesOf(values)};
}

// An adapter as such a class named it, layer by layer from `first` on.
std::vector<TestTensor> OlderTensors(const std::string& layers, int first) {
  std::vector<TestTensor> tensors;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string in = "base_model.model." + layers + std::to_string(first + layer) + ".";
    const auto add = [&](const std::string& module, int64_t rank, int64_t k, int64_t n) {
      const auto which = static_cast<float>(tensors.size());
      tensors.push_back(Numbered(in + module + ".lora_A.weight", rank, k, which));
      tensors.push_back(Numbered(in + module + ".lora_B.weight", n, rank, which + 1.0f));
    };
    add("mixer.Wqkv", 2, 32, 64);
    add("mixer.out_proj", 3, 32, 32);
    add("mlp.fc1", 2, 32, 80);
  }
  return tensors;
}

std::string Refusal(const std::vector<TestTensor>& tensors, std::string_view config) {
  const Result<LoraWeights> weights =
      LoraWeights::Load(FileOf(tensors), Peft(config), PhiModel(), DType::kF32);
  return weights.ok() ? "accepted" : weights.status().ToString();
}

TEST(OlderNamesTest, StacksAreTakenApart) {
  const ModelConfig model = PhiModel();
  for (const auto& [layers, first] : {std::pair("transformer.h.", 0), std::pair("layers.", 1)}) {
    const Result<LoraWeights> weights = LoraWeights::Load(FileOf(OlderTensors(layers, first)),
                                                          Peft(kOlderTargets), model, DType::kF32);
    ASSERT_TRUE(weights.ok()) << weights.status().ToString();
    ASSERT_EQ(weights->targets().size(), 2u * 5);
    for (int32_t layer = 0; layer < 2; ++layer) {
      const float tensor = 1000.0f * 6 * static_cast<float>(layer);
      const auto at = [&](LoraModule module) { return weights->matrix(layer, module); };
      int64_t row = 0;  // of Wqkv's B
      for (const LoraModule module : {LoraModule::kQ, LoraModule::kK, LoraModule::kV}) {
        const LoraMatrix& matrix = at(module);
        ASSERT_EQ(matrix.rank, 2);
        const auto* const a = static_cast<const float*>(matrix.a_rows[1]);
        const auto* const b = static_cast<const float*>(matrix.b_rows[1]);
        const int64_t out = ShapeOfLoraModule(model, module).out;
        for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(a[i], tensor + 32.0f + static_cast<float>(i));
        for (int64_t i = 0; i < out; ++i) {
          EXPECT_EQ(b[i], tensor + 1000.0f + static_cast<float>((row + i) * 2 + 1));
        }
        row += out;
      }
      EXPECT_EQ(row, 64);
      EXPECT_EQ(at(LoraModule::kO).rank, 3);
      EXPECT_EQ(static_cast<const float*>(at(LoraModule::kO).a_rows[0])[0], tensor + 2000.0f);
      EXPECT_EQ(static_cast<const float*>(at(static_cast<LoraModule>(4)).a_rows[0])[0],
                tensor + 4000.0f);
      EXPECT_EQ(at(static_cast<LoraModule>(5)).rank, 0);
    }
  }
}

// Rows of Wqkv's B belong to weights that the base has apart.
TEST(OlderNamesTest, StacksAreMergedApart) {
  const ModelConfig model = PhiModel();
  const SafetensorsFile file = FileOf(OlderTensors("transformer.h.", 0));
  const SafetensorsSet base = *SafetensorsSet::Open(SourcePath("tests/goldens/phi"));
  const Result<AddedToWeights> added = MatchAddedWeights(file, Peft(kOlderTargets), model, base);
  ASSERT_TRUE(added.ok()) << added.status().ToString();
  float first = 0.0f;  // row of Wqkv's B
  for (const LoraModule module : {LoraModule::kQ, LoraModule::kK, LoraModule::kV}) {
    const std::vector<AddedRows>& rows = added->at(LoraModulePath(model, 0, module) + ".weight");
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].row, 0);
    EXPECT_EQ(rows[0].b.shape[0], ShapeOfLoraModule(model, module).out);
    float value = 0.0f;
    std::memcpy(&value, rows[0].b.data, sizeof(value));
    EXPECT_EQ(value, 1000.0f + 2.0f * first);
    first += static_cast<float>(rows[0].b.shape[0]);
  }
}

// PEFT on today's class: Wqkv and out_proj match nothing there and have no tensors, fc1 does.
TEST(OlderNamesTest, OfTodaysFilesTheyMatchNothing) {
  std::vector<TestTensor> tensors;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string in = "base_model.model.model.layers." + std::to_string(layer) + ".mlp.fc1";
    tensors.push_back(Numbered(in + ".lora_A.weight", 2, 32, 0.0f));
    tensors.push_back(Numbered(in + ".lora_B.weight", 80, 2, 1.0f));
  }
  EXPECT_EQ(Refusal(tensors, kOlderTargets), "accepted");
  EXPECT_THAT(TellSkippedTargetsOf(FileOf(tensors), Peft(kOlderTargets), PhiModel()),
              HasSubstr("names \"Wqkv\", \"out_proj\", which this model does not have"));
}

// What is applied is not told to be skipped.
TEST(OlderNamesTest, OfOlderFilesNoneIsToldToBeSkipped) {
  for (const auto& [layers, first] : {std::pair("transformer.h.", 0), std::pair("layers.", 1)}) {
    const SafetensorsFile file = FileOf(OlderTensors(layers, first));
    EXPECT_EQ(TellSkippedTargetsOf(file, Peft(kOlderTargets), PhiModel()), "");
    const PeftConfig more = Peft(R"("target_modules": ["Wqkv", "out_proj", "fc1", "inner_attn"])");
    EXPECT_THAT(TellSkippedTargetsOf(file, more, PhiModel()),
                HasSubstr("names \"inner_attn\", which"));
  }
}

TEST(OlderNamesTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(Refusal(OlderTensors("layers.", 0), kOlderTargets),
              HasSubstr("base_model.model.layers.0.mixer.Wqkv.lora_A.weight"));
  EXPECT_THAT(Refusal(OlderTensors("transformer.h.", 1), kOlderTargets), HasSubstr("of layer 2"));
  EXPECT_THAT(Refusal(OlderTensors("transformer.h.", 0), R"("r": 2, "target_modules": ["fc1"])"),
              HasSubstr("does not target"));
  std::vector<TestTensor> tensors = OlderTensors("transformer.h.", 0);
  tensors[1].shape = {32, 4};
  EXPECT_THAT(Refusal(tensors, kOlderTargets), HasSubstr("takes [64, 2]"));
  tensors = OlderTensors("transformer.h.", 0);
  tensors.push_back(
      Numbered("base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", 2, 32, 0.0f));
  EXPECT_THAT(Refusal(tensors, kOlderTargets), HasSubstr("the same matrix twice"));
  // Another family has no such names.
  const ModelConfig llama = *LoadModelConfig(SourcePath("tests/goldens/llama"));
  EXPECT_FALSE(WithoutOlderNames(Peft(kOlderTargets), llama).has_value());
  EXPECT_FALSE(ParseOlderPath(llama, "transformer.h.0.mixer.Wqkv").has_value());
}

}  // namespace older_names_test
}  // namespace graft
