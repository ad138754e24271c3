#include "adapters/peft_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "adapters/adapter_test_util.h"
#include "base/file.h"
#include "model/family.h"
#include "model/python_regex.h"

namespace graft {
namespace peft_modules_test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Peft;
using testing::SourcePath;

constexpr int32_t kLayers = 12;

ModelConfig ModelOf(int32_t num_layers) {
  ModelConfig model;
  model.num_layers = num_layers;
  return model;
}

ModelConfig FusedModelOf(int32_t num_layers) {
  ModelConfig model = ModelOf(num_layers);
  model.architecture = Architecture::kPhi3;
  return model;
}

std::vector<LoraTarget> Targets(std::string_view extra, int32_t num_layers = kLayers) {
  const Result<std::vector<LoraTarget>> targets =
      ResolveLoraTargets(Peft(extra), ModelOf(num_layers));
  CHECK(targets.ok()) << targets.status().ToString();
  return *targets;
}

std::string Refusal(std::string_view extra, const ModelConfig& model = ModelOf(kLayers)) {
  const Result<std::vector<LoraTarget>> targets = ResolveLoraTargets(Peft(extra), model);
  return targets.ok() ? "accepted" : targets.status().ToString();
}

// The modules that are targeted in any layer, in the order "q k v o gate up down".
std::string Modules(std::string_view extra) {
  std::set<LoraModule> modules;
  for (const LoraTarget& target : Targets(extra)) modules.insert(target.module);
  std::string text;
  for (const LoraModule module : modules) {
    const std::string_view name = LoraModuleName(module);
    text += (text.empty() ? "" : " ") + std::string(name.substr(0, name.find('_')));
  }
  return text;
}

std::vector<int> Layers(std::string_view extra) {
  std::set<int> layers;
  for (const LoraTarget& target : Targets(extra)) layers.insert(target.layer);
  return {layers.begin(), layers.end()};
}

LoraTarget At(const std::vector<LoraTarget>& targets, int32_t layer, LoraModule module) {
  for (const LoraTarget& target : targets) {
    if (target.layer == layer && target.module == module) return target;
  }
  return {};  // rank 0: the module is not targeted
}

TEST(LoraModuleTest, PathsRoundTrip) {
  const ModelConfig model = ModelOf(kLayers);
  for (const int32_t layer : {0, 7, 10, 1023}) {
    for (const LoraModule module : kAllLoraModules) {
      const auto address = ParseLoraModulePath(model, LoraModulePath(model, layer, module));
      ASSERT_TRUE(address.has_value());
      EXPECT_EQ(address->layer, layer);
      EXPECT_EQ(address->module, module);
    }
  }
  EXPECT_EQ(LoraModulePath(model, 3, LoraModule::kQ), "model.layers.3.self_attn.q_proj");
  EXPECT_EQ(LoraModulePath(model, 0, LoraModule::kDown), "model.layers.0.mlp.down_proj");
  for (const std::string path :
       {"", "model.layers.", "model.layers.x.self_attn.q_proj", "model.layers.-1.self_attn.q_proj",
        "model.layers.03.self_attn.q_proj", "model.layers.3self_attn.q_proj",
        "model.layers.3.mlp.q_proj", "model.layers.3.self_attn.q_proj.x", "model.layers.3.",
        "model.layers.99999999999.self_attn.q_proj", "layers.3.self_attn.q_proj"}) {
    EXPECT_FALSE(ParseLoraModulePath(model, path).has_value()) << path;
  }
}

TEST(PeftModulesTest, TargetsAscendAndCarryRankAndScale) {
  const std::vector<LoraTarget> targets = Targets("", 2);
  ASSERT_EQ(targets.size(), 4u);
  for (size_t i = 0; i < targets.size(); ++i) {
    EXPECT_EQ(targets[i].layer, static_cast<int32_t>(i / 2));
    EXPECT_EQ(targets[i].module, i % 2 == 0 ? LoraModule::kQ : LoraModule::kV);
    EXPECT_EQ(targets[i].rank, 4);
    EXPECT_EQ(targets[i].scale, 2.0f);
  }
}

TEST(PeftModulesTest, ANameIsAPathOrItsEndAfterADot) {
  EXPECT_EQ(Modules(R"("target_modules": ["down_proj", "o_proj"])"), "o down");
  EXPECT_EQ(Modules(R"("target_modules": ["mlp.up_proj"])"), "up");
  const std::vector<LoraTarget> one =
      Targets(R"("target_modules": ["model.layers.3.self_attn.k_proj"])");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].layer, 3);
  EXPECT_EQ(one[0].module, LoraModule::kK);
  EXPECT_THAT(Layers(R"("target_modules": ["1.self_attn.k_proj"])"), ElementsAre(1));  // and not 11
  // A name must be a whole part between dots, and it is no regex.
  for (const std::string name : {"proj", "_proj", "q_pro", "self_attn", "layers.0", "", ".*q_proj",
                                 "q_proj.", "layers.12.self_attn.q_proj", "query_key_value"}) {
    EXPECT_THAT(Refusal("\"target_modules\": [\"" + name + "\"]"),
                AllOf(HasSubstr("INVALID_ARGUMENT"),
                      HasSubstr("\"target_modules\" names \"" + name + "\"")));
  }
}

// As PEFT: it wants one of the names to match.
TEST(PeftModulesTest, NamesThatNameNothingAreSkippedAndTold) {
  const std::string names = R"("target_modules": ["query_key_value", "v_proj", "W_pack"])";
  EXPECT_EQ(Modules(names), "v");
  EXPECT_EQ(TellSkippedTargets(Peft(names), ModelOf(kLayers)),
            "target_modules names \"query_key_value\", \"W_pack\", which this model does not "
            "have: skipped, as PEFT does it");
  EXPECT_EQ(TellSkippedTargets(Peft(), ModelOf(kLayers)), "");
  EXPECT_EQ(TellSkippedTargets(Peft(R"("target_modules": ".*q_proj")"), ModelOf(kLayers)), "");
  PeftConfig strict = Peft(names);
  strict.strict_targets = true;
  EXPECT_THAT(ResolveLoraTargets(strict, ModelOf(kLayers)).status().ToString(),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("names \"query_key_value\"")));
  strict.target_modules = ModuleNames{{"v_proj"}};
  EXPECT_TRUE(ResolveLoraTargets(strict, ModelOf(kLayers)).ok());
}

// Names are the file's: a line stays short, and cuts no character in two.
TEST(PeftModulesTest, WhatIsToldOfSkippedNamesIsBounded) {
  PeftConfig config = Peft();
  std::vector<std::string> names = {"q_proj"};
  for (int i = 0; i < 12; ++i) names.push_back("n" + std::to_string(i));
  config.target_modules = ModuleNames{names};
  EXPECT_THAT(TellSkippedTargets(config, ModelOf(1)), HasSubstr("\"n7\" and 4 more"));
  std::string wide;
  for (int i = 0; i < 40; ++i) wide += "\xC3\xA4";
  config.target_modules = ModuleNames{{"q_proj", "x" + wide}};
  EXPECT_THAT(TellSkippedTargets(config, ModelOf(1)),
              HasSubstr("names \"x" + wide.substr(0, 62) + "...\", which"));
}

TEST(PeftModulesTest, ARegexMatchesTheWholePath) {
  EXPECT_EQ(Modules(R"x("target_modules": ".*\\.(q_proj|v_proj)")x"), "q v");
  EXPECT_EQ(Modules(R"("target_modules": ".*self_attn.*")"), "q k v o");
  EXPECT_THAT(Layers(R"("target_modules": "model\\.layers\\.(2|1\\d)\\..*_proj")"),
              ElementsAre(2, 10, 11));
  EXPECT_THAT(Layers(R"("target_modules": "(?i)MODEL\\.layers\\.4\\..*")"), ElementsAre(4));
  EXPECT_EQ(Modules(R"("target_modules": ".*(?<!k)(?<!v)_proj")"), "q o gate up down");
  // As with re.fullmatch, it is not enough to match an end or a beginning.
  EXPECT_THAT(Refusal(R"("target_modules": "q_proj")"), HasSubstr("matches no projection"));
  EXPECT_THAT(Refusal(R"("target_modules": "model\\.layers")"), HasSubstr("no projection"));
  EXPECT_THAT(Refusal(R"("target_modules": "")"), HasSubstr("matches no projection"));
  // The regex must backtrack into the longer alternative to match the whole path.
  EXPECT_EQ(Modules(R"("target_modules": ".*\\.q|.*\\.q_proj")"), "q");
}

TEST(PeftModulesTest, AllLinear) {
  EXPECT_EQ(Targets(R"("target_modules": "all-linear")").size(), 7u * kLayers);
  EXPECT_EQ(
      Modules(R"("target_modules": "all-linear", "exclude_modules": ["k_proj", "mlp.up_proj"])"),
      "q v o gate down");
}

TEST(PeftModulesTest, Exclusion) {
  EXPECT_EQ(Modules(R"("exclude_modules": ["v_proj"])"), "q");
  EXPECT_EQ(Modules(R"("exclude_modules": "q_proj")"), "q v");  // is a regex over the whole path
  EXPECT_EQ(Modules(R"("exclude_modules": ".*q_proj")"), "v");
  EXPECT_EQ(Modules(R"("exclude_modules": ["nothing_like_it"])"), "q v");
  EXPECT_EQ(Targets(R"("exclude_modules": ["layers.0.self_attn.q_proj"])").size(), 23u);
  EXPECT_THAT(Refusal(R"("exclude_modules": ["q_proj", "v_proj"])"), HasSubstr("no projection"));
  EXPECT_THAT(Refusal(R"("exclude_modules": "(")"),
              AllOf(HasSubstr("exclude_modules"), HasSubstr("not a valid regex")));
}

TEST(PeftModulesTest, WhatCannotBeAdaptedIsNamed) {
  for (const std::string name : {"embed_tokens", "model.embed_tokens"}) {
    EXPECT_THAT(Refusal("\"target_modules\": [\"q_proj\", \"" + name + "\"]"),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("target_modules"), HasSubstr(name)));
  }
  EXPECT_THAT(Refusal(R"("target_modules": ".*")"),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("embed_tokens")));
  EXPECT_THAT(Refusal(R"x("target_modules": ".*(q_proj|embed_tokens)")x"),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("embed_tokens")));
  EXPECT_EQ(
      Targets(R"("target_modules": ".*", "exclude_modules": ["lm_head", "embed_tokens"])").size(),
      7u * kLayers);
}

// A target for each of its blocks of words; in no layer, and no linear one of "all-linear".
TEST(PeftModulesTest, TheHeadIsBehindTheLayers) {
  ModelConfig model = ModelOf(2);
  model.vocab_size = 32000;
  const auto head_of = [&](std::string_view extra) {
    const auto targets = ResolveLoraTargets(Peft(extra), model);
    EXPECT_TRUE(targets.ok()) << targets.status().ToString();
    return std::ranges::count_if(
        *targets, [&](const LoraTarget& target) { return model.is_head(target.layer); });
  };
  EXPECT_EQ(head_of(R"("target_modules": ["q_proj", "lm_head"])"), 8);
  EXPECT_EQ(head_of(R"("target_modules": ["lm_head"])"), 8);
  EXPECT_EQ(head_of(R"("target_modules": ".*", "exclude_modules": ["embed_tokens"])"), 8);
  EXPECT_EQ(head_of(R"("target_modules": ["lm_head", "q_proj"], "layers_to_transform": [1])"), 8);
  EXPECT_EQ(head_of(R"("target_modules": "all-linear")"), 0);
  EXPECT_EQ(head_of(R"("target_modules": ["q_proj"])"), 0);
  EXPECT_EQ(head_of(R"("target_modules": ["q_proj", "lm_head"], "exclude_modules": ["lm_head"])"),
            0);
  const auto targets = ResolveLoraTargets(
      Peft(R"("target_modules": ["lm_head"], "rank_pattern": {"lm_head": 9})"), model);
  ASSERT_EQ(targets->size(), 8u);
  int64_t words = 0;
  for (const LoraTarget& target : *targets) {
    EXPECT_EQ(target.layer, 2);
    EXPECT_EQ(target.rank, 9);
    EXPECT_EQ(LoraModulePath(model, target.layer, target.module), "lm_head");
    EXPECT_EQ(RowInStoredWeight(model, target.layer, target.module), words);
    words += ShapeOfLoraMatrix(model, target.layer, target.module).out;
  }
  EXPECT_EQ(words, 32000);
  EXPECT_TRUE(ParseLoraModulePath(model, "lm_head")->is_head);
  EXPECT_FALSE(ParseLoraModulePath(model, "model.layers.2.self_attn.q_proj")->is_head);
}

TEST(PeftModulesTest, LayersToTransform) {
  EXPECT_THAT(Layers(R"("layers_to_transform": [9, 2, 2])"), ElementsAre(2, 9));
  EXPECT_THAT(Layers(R"("layers_to_transform": 11)"), ElementsAre(11));
  EXPECT_EQ(Layers(R"("layers_to_transform": [])").size(), 12u);
  EXPECT_THAT(Layers(R"("layers_to_transform": [1, 12, 400])"), ElementsAre(1));
  EXPECT_THAT(Refusal(R"("layers_to_transform": [12])"), HasSubstr("no projection"));
  EXPECT_THAT(Refusal(R"("layers_to_transform": [99, -1])"),
              AllOf(HasSubstr("layers_to_transform"), HasSubstr("99 -1"), HasSubstr("0 to 11")));
  EXPECT_THAT(Layers(R"("layers_to_transform": [3], "layers_pattern": "layers")"), ElementsAre(3));
  EXPECT_THAT(Layers(R"("layers_to_transform": [3], "layers_pattern": ["h", "lay\\w+"])"),
              ElementsAre(3));
  EXPECT_THAT(Layers(R"("layers_to_transform": [3], "layers_pattern": [])"), ElementsAre(3));
  EXPECT_THAT(Refusal(R"("layers_to_transform": [3], "layers_pattern": "blocks")"),
              HasSubstr("no projection"));
  // A name that is a whole path counts in any layer.
  EXPECT_THAT(Layers(R"("layers_to_transform": [3],
                        "target_modules": ["v_proj", "model.layers.7.self_attn.q_proj"])"),
              ElementsAre(3, 7));
  // PEFT puts the pattern into its regex without a group, so the pattern's first half finds no
  // index.
  EXPECT_THAT(Refusal(R"("layers_to_transform": [-1, 3], "layers_pattern": "model|h")"),
              HasSubstr("no projection"));
}

// As in PEFT: re.match of `(.*\.)?(key)$`, and the first key of the file that matches.
TEST(PeftModulesTest, PatternKeys) {
  const auto rank = [](const std::string& pattern, int32_t layer, LoraModule module) {
    return At(Targets(R"("target_modules": "all-linear", "rank_pattern": )" + pattern), layer,
              module)
        .rank;
  };
  using enum LoraModule;
  EXPECT_EQ(rank(R"({"q_proj": 7})", 0, kQ), 7);
  EXPECT_EQ(rank(R"({"q_proj": 7})", 0, kK), 4);
  EXPECT_EQ(rank(R"({"proj": 7})", 0, kQ), 4);  // there is no dot before it
  EXPECT_EQ(rank(R"({"": 7})", 0, kQ), 4);
  EXPECT_EQ(rank(R"({"self_attn.q_proj": 7})", 5, kQ), 7);
  EXPECT_EQ(rank(R"({"self_attn": 7})", 5, kQ), 4);  // does not end the path
  EXPECT_EQ(rank(R"({"model.layers.5.self_attn.q_proj": 7})", 5, kQ), 7);
  EXPECT_EQ(rank(R"({"model.layers.5.self_attn.q_proj": 7})", 4, kQ), 4);
  EXPECT_EQ(rank(R"({"layers\\.1\\.self_attn\\.q_proj": 7})", 1, kQ), 7);
  EXPECT_EQ(rank(R"({"layers\\.1\\.self_attn\\.q_proj": 7})", 11, kQ), 4);
  EXPECT_EQ(rank(R"({"1.self_attn.q_proj": 7})", 11, kQ), 4);
  EXPECT_EQ(rank(R"({".1.self_attn.q_proj": 7})", 11, kQ), 7);
  EXPECT_EQ(rank(R"({".1.self_attn.q_proj": 7})", 1, kQ), 4);  // "s.1." has no dot before it
  EXPECT_EQ(rank(R"({"s.1.self_attn.q_proj": 7})", 1, kQ), 4);
  EXPECT_EQ(rank(R"({"self.attn.q_proj": 7})", 1, kQ), 7);    // a dot is any character,
  EXPECT_EQ(rank(R"({"self\\.attn.q_proj": 7})", 1, kQ), 4);  // unless it is escaped
  EXPECT_EQ(rank(R"({"(q|k)_proj": 7})", 1, kK), 7);
  EXPECT_EQ(rank(R"({"q_proj|k_proj": 7})", 1, kK), 7);
  EXPECT_EQ(rank(R"({".*1.*": 7})", 10, kDown), 7);
  EXPECT_EQ(rank(R"({".*1.*": 7})", 9, kDown), 4);
  EXPECT_EQ(rank(R"({"^model.*q_proj": 7})", 9, kQ), 7);
  EXPECT_EQ(rank(R"({"^q_proj": 7})", 9, kQ), 4);
  EXPECT_EQ(rank(R"({"layers.([0-4])\\..*": 7})", 4, kUp), 7);
  EXPECT_EQ(rank(R"({"layers.([0-4])\\..*": 7})", 5, kUp), 4);
  // The order in the file decides, for plain keys and for regexes.
  EXPECT_EQ(rank(R"({"q_proj": 7, "layers.0.self_attn.q_proj": 9})", 0, kQ), 7);
  EXPECT_EQ(rank(R"({"layers.0.self_attn.q_proj": 9, "q_proj": 7})", 0, kQ), 9);
  EXPECT_EQ(rank(R"({"z.*|.*q_proj": 7, "a|q_proj": 9})", 0, kQ), 7);
}

TEST(PeftModulesTest, ScaleIsAlphaOverRankOrItsRoot) {
  const std::string patterns =
      R"("rank_pattern": {"q_proj": 16}, "alpha_pattern": {"v_proj": 3, "q_proj": 5})";
  std::vector<LoraTarget> targets = Targets(patterns);
  EXPECT_FLOAT_EQ(At(targets, 0, LoraModule::kQ).scale, 5.0f / 16);
  EXPECT_FLOAT_EQ(At(targets, 0, LoraModule::kV).scale, 3.0f / 4);
  targets = Targets(patterns + R"(, "use_rslora": true)");
  EXPECT_FLOAT_EQ(At(targets, 0, LoraModule::kQ).scale, 5.0f / 4);
  EXPECT_FLOAT_EQ(At(targets, 0, LoraModule::kV).scale, 3.0f / 2);
  EXPECT_EQ(Targets(R"("lora_alpha": 0)")[0].scale, 0.0f);
  EXPECT_EQ(Targets(R"("lora_alpha": -8)")[0].scale, -2.0f);
  EXPECT_THAT(Refusal(R"("lora_alpha": 1e300)"),
              AllOf(HasSubstr("lora_alpha"), HasSubstr("not finite")));
}

TEST(PeftModulesTest, RegexesThatPythonReadsOtherwiseAreRefused) {
  struct Case {
    std::string json_pattern;
    std::string named;
  };
  const Case cases[] = {
      {R"((?R))", "(?R)"},         {R"((*ACCEPT))", "(*"},    {R"(\\K.*)", "\\K"},
      {R"(\\Qa\\E)", "\\Q"},       {R"([[:alpha:]]+)", "[:"}, {R"(a{,3})", "{"},
      {R"(.*(?i)q_proj)", "(?i)"}, {R"((?s:.)*)", "(?s:"},    {R"(\\h)", "\\h"},
      {R"((?<name>a))", "(?<n"},   {R"(\\12)", "\\1"},        {R"(\\x{41})", "\\x"},
      {R"((?(1)a|b))", "(?(1"},    {R"(a{1)", "{"},           {R"(\\p{L})", "\\p"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Refusal("\"target_modules\": \"" + c.json_pattern + "\""),
                AllOf(HasSubstr("UNIMPLEMENTED: \"target_modules\""), HasSubstr(c.named)))
        << c.json_pattern;
  }
  // The message goes into JSON, so the value is cut between characters only.
  EXPECT_THAT(Refusal(R"json("target_modules": "(?x\u00e9)")json"),
              HasSubstr("construct '(?x' is"));
  for (const std::string bad : {"(", ")", "[a", "a**", "*", "(?P<a>x)(?P<a>y)", "a\\\\"}) {
    EXPECT_THAT(Refusal("\"target_modules\": \"" + bad + "\""),
                AllOf(HasSubstr("INVALID_ARGUMENT: \"target_modules\""), HasSubstr("regex")))
        << bad;
    EXPECT_THAT(Refusal("\"rank_pattern\": {\"" + bad + "\": 8}"),
                AllOf(HasSubstr("\"rank_pattern\" key"), HasSubstr("regex")))
        << bad;
  }
}

TEST(PeftModulesTest, HostileRegexesAreBounded) {
  EXPECT_THAT(Refusal(R"("target_modules": "(.*)*(.*)*(.*)*[X-Z]")"),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("too many steps")));
  EXPECT_THAT(Refusal(R"("rank_pattern": {"(.*)*(.*)*(.*)*[X-Z]": 8})"),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("rank_pattern")));
  EXPECT_THAT(Refusal(R"("layers_to_transform": [1], "layers_pattern": "(.*)*(.*)*(.*)*[X-Z]")"),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("layers_pattern")));
  EXPECT_THAT(Refusal("\"target_modules\": \"" + std::string(kRegexBytesMax + 1, 'a') + "\""),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("4097 bytes")));
  std::string plain, regexes;
  for (int i = 0; i < 1000; ++i) {
    plain += (i > 0 ? ", \"" : "\"") + std::to_string(i) + ".self_attn.q_proj\": 8";
    regexes += (i > 0 ? ", \"" : "\"") + std::to_string(i) + ".*\": 8";
  }
  EXPECT_EQ(Targets("\"rank_pattern\": {" + plain + "}")[0].rank, 8);
  EXPECT_THAT(Refusal("\"rank_pattern\": {" + regexes + "}"),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("\"rank_pattern\" has more than")));
}

// The table of demo/README.md.
TEST(PeftModulesTest, DemoAdapters) {
  struct Case {
    int32_t rank;
    double scale;
    std::string modules;
    std::set<int32_t> layers;
  };
  const std::string all = "q k v o gate up down";
  const std::set<int32_t> every = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::map<std::string, Case> cases = {
      {"austen", {16, 2.0, all, every}},
      {"doyle", {8, 2.0, "q k v o", every}},
      {"wells", {32, 32.0 / std::sqrt(32.0), "q v o down", every}},
      {"burroughs", {16, 1.0, all, every}},
      {"montgomery", {8, 2.0, "q v", every}},
      {"lovecraft", {64, 1.0, "q v", every}},
      {"wodehouse", {16, 2.0, all, every}},
      {"carroll", {4, 4.0, all, {4, 5, 6, 7, 8, 9, 10, 11}}},
  };
  for (const auto& [name, expected] : cases) {
    SCOPED_TRACE(name);
    const std::string path = SourcePath("demo/adapters/" + name + "/adapter_config.json");
    const Result<PeftConfig> config = ParsePeftConfig(*ReadFile(path));
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    const Result<std::vector<LoraTarget>> targets = ResolveLoraTargets(*config, ModelOf(kLayers));
    ASSERT_TRUE(targets.ok()) << targets.status().ToString();
    std::string modules;
    std::set<int32_t> layers;
    for (const LoraTarget& target : *targets) {
      layers.insert(target.layer);
      if (target.layer == *expected.layers.begin()) {
        const std::string module(LoraModuleName(target.module));
        modules += (modules.empty() ? "" : " ") + module.substr(0, module.find('_'));
      }
      int32_t rank = expected.rank;
      double scale = expected.scale;
      if (name == "burroughs" && target.module == LoraModule::kDown) rank = 8, scale = 4.0;
      if (name == "burroughs" && target.module == LoraModule::kQ && target.layer == 0) {
        rank = 4, scale = 4.0;
      }
      EXPECT_EQ(target.rank, rank) << LoraModuleName(target.module);
      EXPECT_FLOAT_EQ(target.scale, static_cast<float>(scale));
    }
    EXPECT_EQ(modules, expected.modules);
    EXPECT_EQ(layers, expected.layers);
    EXPECT_EQ(targets->size() % layers.size(), 0u);
  }
}

// Phi-3's checkpoints stack q, k, v and gate, up: PEFT adapts the stacks.
TEST(PeftModulesTest, FusedProjections) {
  const ModelConfig model = FusedModelOf(3);
  EXPECT_EQ(LoraModulePath(model, 1, LoraModule::kV), "model.layers.1.self_attn.qkv_proj");
  EXPECT_EQ(LoraModulePath(model, 1, LoraModule::kUp), "model.layers.1.mlp.gate_up_proj");
  EXPECT_FALSE(ParseLoraModulePath(model, "model.layers.1.self_attn.q_proj").has_value());
  const auto targets = ResolveLoraTargets(
      Peft(R"("target_modules": ["qkv_proj", "down_proj"], "rank_pattern": {"qkv_proj": 6})"),
      model);
  ASSERT_TRUE(targets.ok()) << targets.status().ToString();
  ASSERT_EQ(targets->size(), 12u);
  for (int i = 0; i < 4; ++i) {
    const LoraModule modules[] = {LoraModule::kQ, LoraModule::kK, LoraModule::kV,
                                  LoraModule::kDown};
    EXPECT_EQ((*targets)[4 + i].layer, 1);
    EXPECT_EQ((*targets)[4 + i].module, modules[i]);
    EXPECT_EQ((*targets)[4 + i].rank, i == 3 ? 4 : 6);
  }
  EXPECT_EQ(ResolveLoraTargets(Peft(R"("target_modules": "all-linear")"), model)->size(), 21u);
  EXPECT_EQ(ResolveLoraTargets(Peft(R"("target_modules": ".*(gate_up|o)_proj")"), model)->size(),
            9u);
  EXPECT_THAT(
      Refusal(R"("target_modules": ["q_proj"])", model),
      AllOf(HasSubstr("q_proj"), HasSubstr("qkv_proj, o_proj, gate_up_proj and down_proj")));
  EXPECT_THAT(Refusal(R"("target_modules": null)", model),
              AllOf(HasSubstr("target_modules"), HasSubstr("Phi3ForCausalLM")));
}

TEST(PeftModulesTest, DefaultsAreThoseThatPeftHas) {
  for (const ModelFamily* family : ModelFamilies()) {
    ModelConfig model = ModelOf(1);
    model.architecture = family->architecture;
    model.lora_targets = family->lora_targets;
    const auto targets = ResolveLoraTargets(Peft(R"("target_modules": null)"), model);
    EXPECT_EQ(targets.ok(), family->has_peft_default) << family->name;
    if (targets.ok()) {
      const std::map<Architecture, size_t> others = {{Architecture::kGpt2, 3},  // q, k, v
                                                     {Architecture::kGptNeoX, 3},
                                                     {Architecture::kPhi, 4}};
      const auto other = others.find(family->architecture);
      EXPECT_EQ(targets->size(), other == others.end() ? 2 : other->second) << family->name;
    }
  }
  ModelConfig granite = ModelOf(1);
  granite.architecture = Architecture::kGranite;
  EXPECT_THAT(Refusal(R"("target_modules": null)", granite),
              AllOf(HasSubstr("PEFT has no default"), HasSubstr("GraniteForCausalLM")));
}

// GPT-2's weights are [in, out], as PEFT says of its adapters: A and B are the same either way.
TEST(PeftModulesTest, TransposedBases) {
  ModelConfig gpt2 = *LoadModelConfig(SourcePath("tests/goldens/gpt2"));
  constexpr char kConv1d[] = R"("fan_in_fan_out": true, "target_modules": ["c_proj", "c_attn"])";
  EXPECT_EQ(Refusal(kConv1d, gpt2), "accepted");
  // q, k, v, o and down of three layers.
  EXPECT_EQ(ResolveLoraTargets(Peft(kConv1d), gpt2)->size(), 15u);
  EXPECT_EQ(ResolveLoraTargets(Peft(R"("target_modules": ["attn.c_proj"])"), gpt2)->size(), 3u);
  EXPECT_EQ(ResolveLoraTargets(Peft(R"("target_modules": null)"), gpt2)->size(), 9u);
  EXPECT_THAT(Refusal(R"("target_modules": ["wte"])", gpt2), HasSubstr("UNIMPLEMENTED"));
  EXPECT_THAT(Refusal(R"("target_modules": ["wpe"])", gpt2), HasSubstr("UNIMPLEMENTED"));
}

// The goldens' adapters all use these patterns; two of them are rank-stabilized.
TEST(PeftModulesTest, GoldenAdapters) {
  for (const std::string name : {"llama", "llama-linear-rope", "llama3-rope", "mistral-window",
                                 "qwen2", "qwen3", "gemma2", "gemma3"}) {
    SCOPED_TRACE(name);
    const std::string path = SourcePath("tests/goldens/" + name + "/adapter/adapter_config.json");
    const Result<PeftConfig> config = ParsePeftConfig(*ReadFile(path));
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    const Result<std::vector<LoraTarget>> targets = ResolveLoraTargets(*config, ModelOf(2));
    ASSERT_TRUE(targets.ok()) << targets.status().ToString();
    ASSERT_EQ(targets->size(), 14u);
    for (const LoraTarget& target : *targets) {
      const bool is_v = target.module == LoraModule::kV;
      const bool is_rank_stabilized = name == "qwen2" || name == "gemma3";
      const int32_t rank = is_v ? 4 : target.module == LoraModule::kDown ? 12 : 8;
      const double alpha = is_v ? 3.0 : 16.0;
      EXPECT_EQ(target.rank, rank);
      EXPECT_FLOAT_EQ(target.scale,
                      static_cast<float>(alpha / (is_rank_stabilized ? std::sqrt(rank) : rank)));
    }
  }
}

}  // namespace peft_modules_test
}  // namespace graft
