// Adapters of wrappers: names of several classes, and tensors of towers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "adapters/lora_check.h"
#include "base/file.h"

namespace graft {
namespace wrapper_adapters_test {

using ::testing::AllOf;
using testing::FileOf;
using ::testing::HasSubstr;
using testing::SourcePath;
using testing::TestTensor;

struct GoldenAdapter {
  explicit GoldenAdapter(const std::string& name)
      : config(*LoadModelConfig(SourcePath("tests/goldens/" + name))) {
    const std::string dir = SourcePath("tests/goldens/" + name + "/adapter");
    json = OrderedJson::parse(*ReadFile(dir + "/adapter_config.json"));
    const SafetensorsFile file = *SafetensorsFile::Open(dir + "/adapter_model.safetensors");
    for (const auto& [tensor, entry] : file.entries()) {
      const std::span<const char> bytes = *file.Bytes(tensor);
      tensors.push_back({tensor, entry.dtype, entry.shape, {bytes.begin(), bytes.end()}});
    }
  }

  // "": it loads, and passes its self-test.
  std::string Refusal() const {
    const PeftConfig peft = *ParsePeftConfig(json.dump());
    const Result<LoraWeights> loaded = Load();
    if (!loaded.ok()) return loaded.status().message();
    Result<LoraSelfTest> test =
        LoraSelfTest::Begin(FileOf(tensors), peft, config, *loaded, nullptr);
    return test.ok() ? test->Finish().message() : test.status().message();
  }
  Result<LoraWeights> Load() const {
    return LoraWeights::Load(FileOf(tensors), *ParsePeftConfig(json.dump()), config, DType::kF32);
  }

  void Rename(const std::string& from, const std::string& to) {
    for (TestTensor& tensor : tensors) {
      const size_t at = tensor.name.find(from);
      if (at != tensor.name.npos) tensor.name.replace(at, from.size(), to);
    }
  }

  ModelConfig config;
  OrderedJson json;
  std::vector<TestTensor> tensors;
};

std::string BytesOfAll(const LoraWeights& weights) {
  return {weights.buffer().as<char>(), static_cast<size_t>(weights.buffer().bytes())};
}

TEST(WrapperAdapterTest, ClassesOfAllVersionsName) {
  const GoldenAdapter today("qwen2-vl");
  ASSERT_EQ(today.Refusal(), "");
  const std::string bytes = BytesOfAll(*today.Load());
  // LLaVA's and Gemma 3's class before transformers 4.52, SmolVLM's, Qwen2-VL's, and a class of
  // text alone.
  for (const char* const prefix : {"language_model.model.", "model.text_model.", "model."}) {
    GoldenAdapter older("qwen2-vl");
    older.Rename("model.language_model.", prefix);
    EXPECT_EQ(older.Refusal(), "") << prefix;
    EXPECT_EQ(BytesOfAll(*older.Load()), bytes) << prefix;
  }
  GoldenAdapter mixed("qwen2-vl");
  mixed.Rename("model.language_model.layers.0", "model.layers.0");
  EXPECT_EQ(mixed.Refusal(), "");
  GoldenAdapter twice("qwen2-vl");
  twice.tensors.push_back(twice.tensors[0]);
  std::string& name = twice.tensors.back().name;
  name.replace(name.find("model.language_model."), 21, "model.");
  EXPECT_THAT(twice.Refusal(), HasSubstr("are the same matrix twice"));
}

// Rules are matched against the paths that the adapter's own class had.
TEST(WrapperAdapterTest, RulesSeeTheFilesOwnPaths) {
  GoldenAdapter adapter("qwen2-vl");
  adapter.json["target_modules"] =
      R"(language_model\.model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj)";
  EXPECT_THAT(adapter.Refusal(), HasSubstr("matches no projection"));
  adapter.Rename("model.language_model.", "language_model.model.");
  EXPECT_EQ(adapter.Refusal(), "");
  adapter.json["rank_pattern"] = {{R"(language_model\.model\.layers\.\d+\.self_attn\.v_proj)", 4},
                                  {"down_proj", 12}};
  EXPECT_EQ(adapter.Refusal(), "");
}

TEST(WrapperAdapterTest, TowersAreRefusedOrLeftOut) {
  for (const char* const name : {"qwen25-vl", "llava"}) {
    GoldenAdapter adapter(name);
    EXPECT_THAT(adapter.Refusal(),
                AllOf(HasSubstr("is of a tower of " + std::string(ClassNameOf(adapter.config))),
                      HasSubstr("--text-only")));
    adapter.config.text_only = true;
    EXPECT_EQ(adapter.Refusal(), "");
    EXPECT_EQ(TowerTensors(FileOf(adapter.tensors), adapter.config).size(), 6u);
    // Without them the same rules are the text's alone.
    std::erase_if(adapter.tensors, [](const TestTensor& tensor) {
      return tensor.name.find("vis") != tensor.name.npos;
    });
    adapter.config.text_only = false;
    EXPECT_EQ(adapter.Refusal(), "");
    // Names of a tower's modules alone mean nothing here.
    adapter.json["target_modules"].push_back("merger.mlp.0");
    EXPECT_EQ(adapter.Refusal(), "");
    // What neither a tower nor the text has stays refused.
    adapter.config.text_only = true;
    adapter.tensors[0].name = "base_model.model.score.lora_A.weight";
    EXPECT_THAT(adapter.Refusal(), HasSubstr("is not lora_A or lora_B of a projection"));
  }
}

TEST(WrapperAdapterTest, AllLinearIsTheTextsProjections) {
  GoldenAdapter adapter("qwen2-vl");
  adapter.json["target_modules"] = "all-linear";
  EXPECT_EQ(adapter.Refusal(), "");
  adapter.json["target_modules"] = nullptr;
  EXPECT_THAT(adapter.Refusal(),
              HasSubstr("PEFT has no default for Qwen2VLForConditionalGeneration"));
  adapter.json["target_modules"] = ".*(embed_tokens|_proj)";
  EXPECT_THAT(adapter.Refusal(), HasSubstr("model.language_model.embed_tokens"));
}

}  // namespace wrapper_adapters_test
}  // namespace graft
