#include "adapters/mlx_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "adapters/lora_weights.h"
#include "adapters/peft_folder.h"
#include "base/file.h"

namespace graft {
namespace mlx_adapter_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RandomElements;
using testing::SafetensorsBytes;
using testing::SourcePath;
using testing::TempDir;
using testing::TestTensor;
using testing::WriteFile;

constexpr char kConfig[] =
    R"({"fine_tune_type": "lora", "lora_parameters": {"rank": 2, "scale": 20, "dropout": 0.1},
        "model": "some/base", "num_layers": 8, "learning_rate": 1e-5})";

std::vector<TestTensor> Tensors() {
  Random random(7);
  const std::string path = "model.layers.0.self_attn.q_proj";
  return {{path + ".lora_a", "F32", {3, 2}, RandomElements("F32", 6, random)},
          {path + ".lora_b", "F32", {2, 5}, RandomElements("F32", 10, random)}};
}

std::string Refusal(std::string_view config, const std::vector<TestTensor>& tensors = Tensors()) {
  const std::string bytes = SafetensorsBytes(tensors);
  Buffer copy(static_cast<int64_t>(bytes.size()));
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  const Result<PeftBytes> read =
      PeftOfMlx(config, FileBytes(std::move(copy)), "adapters.safetensors");
  return read.ok() ? "accepted" : read.status().ToString();
}

std::string With(std::string_view changes) {
  OrderedJson json = OrderedJson::parse(kConfig);
  json.update(OrderedJson::parse("{" + std::string(changes) + "}"));
  return json.dump();
}

// The fixture and PEFT's folder of the same matrices are the same adapter to the last bit.
TEST(MlxAdapterTest, IsThePeftAdapterOfTheSameMatrices) {
  const ModelConfig model = *LoadModelConfig(SourcePath("tests/goldens/llama"));
  std::vector<LoraWeights> read;
  std::vector<PeftConfig> configs;
  for (const std::string name : {"mlx", "mlx-as-peft"}) {
    const Result<PeftFolder> folder =
        ReadPeftFolder(SourcePath("tests/goldens/forms/" + name), 1 << 20);
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    configs.push_back(*ParsePeftConfig(folder->config));
    read.push_back(*LoraWeights::Load(*SafetensorsFile::FromBytes(folder->weights, name),
                                      configs.back(), model, DType::kF32));
  }
  ASSERT_EQ(read[0].targets().size(), 6u);
  ASSERT_EQ(read[0].targets().size(), read[1].targets().size());
  for (size_t i = 0; i < read[0].targets().size(); ++i) {
    EXPECT_EQ(read[0].targets()[i].layer, read[1].targets()[i].layer);
    EXPECT_EQ(read[0].targets()[i].module, read[1].targets()[i].module);
    EXPECT_EQ(read[0].targets()[i].scale, 2.5f);
  }
  ASSERT_EQ(read[0].buffer().bytes(), read[1].buffer().bytes());
  EXPECT_EQ(std::memcmp(read[0].buffer().data(), read[1].buffer().data(),
                        static_cast<size_t>(read[0].buffer().bytes())),
            0);
  EXPECT_EQ(configs[0].base_model, configs[1].base_model);
}

TEST(MlxAdapterTest, WhatIsItsConfig) {
  EXPECT_TRUE(IsMlxConfig(kConfig));
  EXPECT_TRUE(IsMlxConfig(R"({"fine_tune_type": "full"})"));
  EXPECT_FALSE(IsMlxConfig(With(R"("peft_type": "LORA")")));
  EXPECT_FALSE(IsMlxConfig(R"({"r": 8})"));
  EXPECT_FALSE(IsMlxConfig("lora_parameters"));
}

TEST(MlxAdapterTest, WhatIsNotAppliedIsRefusedByName) {
  EXPECT_EQ(Refusal(kConfig), "accepted");
  EXPECT_EQ(Refusal(With(R"("fine_tune_type": null)")), "accepted");
  for (const auto& [changes, why] : std::vector<std::pair<std::string, std::string>>{
           {R"("fine_tune_type": "dora")", "magnitudes"},
           {R"("use_dora": true)", "magnitudes"},
           {R"("fine_tune_type": "full")", "fuse them"},
           {R"("fine_tune_type": "other")", "\"other\""},
           {R"("lora_parameters": {"rank": 2, "scale": 2, "alpha": 16})", "\"alpha\""},
           {R"("lora_parameters": {"rank": 2, "scale": 2, "new": 1})", "\"new\""}}) {
    EXPECT_THAT(Refusal(With(changes)), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(why)));
  }
  for (const auto& [changes, why] : std::vector<std::pair<std::string, std::string>>{
           {R"("lora_parameters": null)", "rank and scale"},
           {R"("lora_parameters": {"rank": 2})", "lora_parameters.scale"},
           {R"("lora_parameters": {"rank": 2, "scale": "2"})", "lora_parameters.scale"},
           {R"("lora_parameters": {"scale": 2})", "lora_parameters.rank"},
           {R"("lora_parameters": {"rank": 300, "scale": 2})", "256"},
           {R"("lora_parameters": {"rank": 3, "scale": 2})", "no matrix of the rank 3"}}) {
    EXPECT_THAT(Refusal(With(changes)), AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(why)));
  }
}

TEST(MlxAdapterTest, TensorsThatAreNotLoraAreRefused) {
  std::vector<TestTensor> tensors = Tensors();
  tensors[0].name = "model.layers.0.self_attn.q_proj.m";
  EXPECT_THAT(Refusal(kConfig, tensors), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("q_proj.m")));
  tensors = Tensors();
  tensors[1].shape = {1, 2, 5};
  EXPECT_THAT(Refusal(kConfig, tensors), HasSubstr("no matrix of the rank"));
}

// All that a folder is known by is that of the files that PEFT would write.
TEST(MlxAdapterTest, ACopyUnderPeftsNameIsTheSame) {
  const TempDir dir;
  const std::string from = SourcePath("tests/goldens/forms/mlx");
  WriteFile(dir.File("adapter_config.json"), *ReadFile(from + "/adapter_config.json"));
  WriteFile(dir.File("adapter_model.safetensors"), *ReadFile(from + "/adapters.safetensors"));
  EXPECT_EQ(*HashOfFolder(dir.path()), *HashOfFolder(from));
}

}  // namespace mlx_adapter_test
}  // namespace graft
