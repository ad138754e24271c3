// Adapters of wrappers: names of several classes, and tensors of towers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "adapters/adapter_test_util.h"
#include "adapters/lora_check.h"
#include "adapters/peft_backend.h"
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

  std::string Skipped() const {
    return TellSkippedTargetsOf(FileOf(tensors), *ParsePeftConfig(json.dump()), config);
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

// Inspecting, listing and the log tell of a tower's tensors.
TEST(WrapperAdapterTest, TowersThatAreLeftOutAreTold) {
  ModelConfig config = *LoadModelConfig(SourcePath("tests/goldens/llava"));
  config.text_only = true;
  const Result<OrderedJson> facts =
      InspectAdapter(SourcePath("tests/goldens/llava/adapter"), config, TypesOf(DType::kF32));
  ASSERT_TRUE(facts.ok()) << facts.status().ToString();
  EXPECT_EQ((*facts)["tower_tensors_left_out"], 6);
  EXPECT_THAT((*facts)["left_out"].dump(),
              AllOf(HasSubstr("6 tensors are of towers of LlavaForConditionalGeneration"),
                    HasSubstr("--text-only"), HasSubstr("vision_tower")));
}

// Paths of an earlier class name modules, and are not told to be skipped.
TEST(WrapperAdapterTest, SkippedAreNamesOfNothingInTheText) {
  GoldenAdapter adapter("qwen2-vl");
  EXPECT_EQ(adapter.Skipped(), "");
  adapter.Rename("model.language_model.", "language_model.model.");
  OrderedJson paths = OrderedJson::array();
  for (const TestTensor& tensor : adapter.tensors) {
    const std::string prefix = "base_model.model.";
    const size_t end = tensor.name.find(".lora_");
    paths.push_back(tensor.name.substr(prefix.size(), end - prefix.size()));
  }
  adapter.json["target_modules"] = paths;
  EXPECT_EQ(adapter.Refusal(), "");
  EXPECT_EQ(adapter.Skipped(), "");
  paths.push_back("merger.mlp.0");
  adapter.json["target_modules"] = paths;
  EXPECT_EQ(adapter.Refusal(), "");
  EXPECT_EQ(adapter.Skipped(),
            "target_modules names \"merger.mlp.0\", which this model's text does not have: "
            "skipped");
  PeftConfig strict = *ParsePeftConfig(adapter.json.dump());
  strict.strict_targets = true;
  const Result<LoraWeights> loaded =
      LoraWeights::Load(FileOf(adapter.tensors), strict, adapter.config, DType::kF32);
  EXPECT_THAT(loaded.status().message(), HasSubstr("names \"merger.mlp.0\", but this model's"));
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
