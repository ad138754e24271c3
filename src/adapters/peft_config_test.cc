#include "adapters/peft_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "adapters/adapter_test_util.h"
#include "base/file.h"
#include "kernels/lora/lora.h"

namespace graft {
namespace peft_config_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::Peft;
using testing::PeftJson;
using testing::SourcePath;

// The refusal as "CODE: message", or "accepted".
std::string RefusalOfText(std::string_view text) {
  const Result<PeftConfig> config = ParsePeftConfig(text);
  return config.ok() ? "accepted" : config.status().ToString();
}

std::string Refusal(std::string_view extra) { return RefusalOfText(PeftJson(extra)); }

TEST(PeftConfigTest, ReadsWhatPeftWrites) {
  const PeftConfig config = Peft(
      R"("peft_version": "0.21.0", "r": 16, "lora_alpha": 12.5, "use_rslora": true,
         "rank_pattern": {"z": 3, "a": 256}, "alpha_pattern": {"m": 0.5, "b": -2},
         "exclude_modules": ["k_proj"], "layers_to_transform": [2, 0],
         "layers_pattern": "layers")");
  EXPECT_EQ(config.base_model, "test/base");
  EXPECT_EQ(config.peft_version, "0.21.0");
  EXPECT_EQ(config.rank, 16);
  EXPECT_EQ(config.alpha, 12.5);
  EXPECT_TRUE(config.rank_stabilized);
  // The keys keep the file's order, because the first key that matches decides.
  EXPECT_THAT(config.rank_pattern, ElementsAre(Pair("z", 3), Pair("a", 256)));
  EXPECT_THAT(config.alpha_pattern, ElementsAre(Pair("m", 0.5), Pair("b", -2.0)));
  EXPECT_THAT(std::get<ModuleNames>(config.target_modules).names, ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(std::get<ModuleNames>(config.exclude_modules).names, ElementsAre("k_proj"));
  EXPECT_THAT(config.layers_to_transform, ElementsAre(2, 0));
  EXPECT_THAT(config.layers_pattern, ElementsAre("layers"));
}

TEST(PeftConfigTest, AbsentAndNullKeysTakePeftsDefaults) {
  for (const std::string text :
       {R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1})",
        R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "task_type": null, "use_rslora": null,
            "base_model_name_or_path": null, "peft_version": null, "rank_pattern": null,
            "alpha_pattern": null, "target_modules": null, "exclude_modules": null, "bias": null,
            "layers_to_transform": null, "layers_pattern": null, "init_lora_weights": null})"}) {
    const Result<PeftConfig> config = ParsePeftConfig(text);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_EQ(config->base_model, "");
    EXPECT_FALSE(config->rank_stabilized);
    EXPECT_THAT(config->rank_pattern, IsEmpty());
    EXPECT_THAT(config->alpha_pattern, IsEmpty());
    EXPECT_TRUE(std::holds_alternative<DefaultTargets>(config->target_modules));
    EXPECT_THAT(std::get<ModuleNames>(config->exclude_modules).names, IsEmpty());
    EXPECT_THAT(config->layers_to_transform, IsEmpty());
    EXPECT_THAT(config->layers_pattern, IsEmpty());
  }
}

TEST(PeftConfigTest, KindsOfTargets) {
  EXPECT_TRUE(
      std::holds_alternative<AllLinear>(Peft(R"("target_modules": "all-linear")").target_modules));
  EXPECT_TRUE(
      std::holds_alternative<AllLinear>(Peft(R"("target_modules": "All-Linear")").target_modules));
  EXPECT_EQ(std::get<ModuleRegex>(Peft(R"("target_modules": ".*q_proj")").target_modules).pattern,
            ".*q_proj");
  EXPECT_EQ(std::get<ModuleRegex>(Peft(R"("exclude_modules": ".*k_proj")").exclude_modules).pattern,
            ".*k_proj");
  EXPECT_THAT(Peft(R"("layers_to_transform": 5)").layers_to_transform, ElementsAre(5));
}

// Keys that would change what the model computes are refused by name, with their value.
TEST(PeftConfigTest, RefusesWhatIsNotApplied) {
  struct Case {
    std::string key;
    std::string value;
  };
  const Case cases[] = {
      {"use_dora", "true"},
      {"modules_to_save", R"(["lm_head","embed_tokens"])"},
      {"bias", R"("all")"},
      {"bias", R"("lora_only")"},
      {"lora_bias", "true"},
      {"target_parameters", R"(["feed_forward.experts.down_proj"])"},
      {"layer_replication", "[[0,4],[2,5]]"},
      {"trainable_token_indices", "[1,2]"},
      {"trainable_token_indices", R"({"embed_tokens":[3]})"},
      {"use_qalora", "true"},
      {"use_bdlora", R"({"nblocks":2})"},
      {"arrow_config", R"({"top_k":3})"},
      {"kasa_config", R"({"beta":0.1})"},
      {"monteclora_config", R"({"num_samples":4})"},
      {"megatron_config", R"({"hidden_size":8})"},
      {"enable_lora", "[true,false,true]"},
      {"task_type", R"("SEQ_CLS")"},
      {"init_lora_weights", R"("pissa")"},
      {"init_lora_weights", R"("pissa_niter_16")"},
      {"init_lora_weights", R"("OLoRA")"},
      {"init_lora_weights", R"("corda")"},
      {"init_lora_weights", R"("loftq")"},
      {"init_lora_weights", R"("lora_ga")"},
      {"init_lora_weights", R"("from_the_future")"},
      {"something_new", "true"},
      {"something_new", "0.5"},
      {"something_new", "0"},
      {"something_new", R"({"a":null})"},
      // These are "off" in another spelling than PEFT's, and are not taken on trust.
      {"use_dora", "0"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(
        Refusal("\"" + c.key + "\": " + c.value),
        AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("\"" + c.key + "\" = " + c.value + " ")))
        << c.key;
  }
}

TEST(PeftConfigTest, RefusesOtherMethodsBeforeTheirKeys) {
  for (const std::string type : {"IA3", "ADALORA", "LOHA", "LOKR", "PREFIX_TUNING", "lora", ""}) {
    EXPECT_THAT(Refusal(R"("init_ia3_weights": true, "peft_type": ")" + type + "\""),
                HasSubstr("UNIMPLEMENTED: \"peft_type\" = \"" + type + "\""));
  }
  EXPECT_THAT(Refusal(R"("peft_type": null)"), HasSubstr("INVALID_ARGUMENT: \"peft_type\" = null"));
  EXPECT_THAT(RefusalOfText(R"({"r": 8})"), HasSubstr("\"peft_type\""));
}

TEST(PeftConfigTest, AcceptsTrainingKeysAndKeysThatAreOff) {
  for (
      const std::string extra :
      {R"("lora_dropout": 0.05)",
       R"("inference_mode": false)",
       R"("revision": "main")",
       R"("auto_mapping": {"base_model_class": "Qwen2ForCausalLM"})",
       R"("merge_weights": true)",
       R"("megatron_core": "megatron.core")",
       R"("qalora_group_size": 16)",
       R"("loftq_config": {"loftq_bits": 4})",
       R"("eva_config": {"rho": 2})",
       R"("corda_config": {"a": 1})",
       R"("lora_ga_config": {"a": 1})",
       R"("velora_config": {"a": 1})",
       R"("runtime_config": {"ephemeral_gpu_offload": true})",
       R"("ensure_weight_tying": true)",
       R"("init_lora_weights": false)",
       R"("init_lora_weights": "gaussian")",
       R"("init_lora_weights": "Eva")",
       R"("init_lora_weights": "orthogonal")",
       R"("init_lora_weights": "mica")",
       R"("bias": "none")",
       R"("use_dora": false, "modules_to_save": null, "lora_bias": false, "fan_in_fan_out": false)",
       R"("modules_to_save": [], "target_parameters": [], "layer_replication": null)",
       R"("use_qalora": false, "use_bdlora": null, "enable_lora": null, "megatron_config": {})",
       R"("new_a": null, "new_b": false, "new_c": "", "new_d": [], "new_e": {})"}) {
    EXPECT_EQ(Refusal(extra), "accepted") << extra;
  }
}

TEST(PeftConfigTest, InvocationTokensOfAnActivatedLora) {
  const auto tokens = [](const std::string& extra) {
    return ParsePeftConfig(PeftJson(extra))->invocation_tokens;
  };
  EXPECT_TRUE(tokens("\"alora_invocation_tokens\": null").empty());
  EXPECT_EQ(tokens("\"alora_invocation_tokens\": [5, 0, 6]"), (std::vector<int32_t>{5, 0, 6}));
  for (const std::string bad :
       {"[]", "5", "true", "\"5\"", "[5.0]", "[-1]", "[4294967296]", "[null]"}) {
    EXPECT_THAT(Refusal("\"alora_invocation_tokens\": " + bad),
                ::testing::HasSubstr("expected a list of 1 to 4096 token ids"))
        << bad;
  }
}

TEST(PeftConfigTest, RanksAndAlphas) {
  for (const std::string bad :
       {"0", "-1", "257", "4294967304", "18446744073709551615", "8.0", "\"8\"", "true", "null"}) {
    EXPECT_THAT(Refusal("\"r\": " + bad),
                AllOf(HasSubstr("INVALID_ARGUMENT: \"r\" = " + bad), HasSubstr("from 1 to 256")));
    EXPECT_THAT(Refusal(R"("rank_pattern": {"q_proj": )" + bad + "}"),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("rank_pattern"), HasSubstr("q_proj"),
                      HasSubstr(bad)));
  }
  EXPECT_EQ(Peft(R"("r": 256)").rank, kLoraRankMax);
  for (const std::string bad : {"null", "\"16\"", "true", "[1]"}) {
    EXPECT_THAT(Refusal("\"lora_alpha\": " + bad), HasSubstr("\"lora_alpha\" = " + bad));
    EXPECT_THAT(Refusal(R"("alpha_pattern": {"q_proj": )" + bad + "}"),
                AllOf(HasSubstr("alpha_pattern"), HasSubstr("q_proj")));
  }
  EXPECT_THAT(RefusalOfText(R"({"peft_type": "LORA", "lora_alpha": 1})"),
              HasSubstr("\"r\" = null"));
  EXPECT_THAT(RefusalOfText(R"({"peft_type": "LORA", "r": 1})"),
              HasSubstr("\"lora_alpha\" = null"));
  EXPECT_EQ(Peft(R"("lora_alpha": 0)").alpha, 0.0);
  EXPECT_EQ(Peft(R"("lora_alpha": -3)").alpha, -3.0);
}

TEST(PeftConfigTest, WrongTypesNameTheKey) {
  struct Case {
    std::string extra;
    std::string key;
  };
  const Case cases[] = {
      {R"("use_rslora": "yes")", "use_rslora"},
      {R"("use_rslora": 1)", "use_rslora"},
      {R"("bias": false)", "bias"},
      {R"("task_type": 1)", "task_type"},
      {R"("base_model_name_or_path": ["a"])", "base_model_name_or_path"},
      {R"("peft_version": 0.21)", "peft_version"},
      {R"("init_lora_weights": 1)", "init_lora_weights"},
      {R"("rank_pattern": [8])", "rank_pattern"},
      {R"("alpha_pattern": "q_proj")", "alpha_pattern"},
      {R"("target_modules": [])", "target_modules"},
      {R"("target_modules": ["q_proj", 1])", "target_modules"},
      {R"("target_modules": {"q_proj": true})", "target_modules"},
      {R"("exclude_modules": 3)", "exclude_modules"},
      {R"("exclude_modules": [null])", "exclude_modules"},
      {R"("layers_to_transform": "3")", "layers_to_transform"},
      {R"("layers_to_transform": [1.5])", "layers_to_transform"},
      {R"("layers_to_transform": true)", "layers_to_transform"},
      {R"("layers_to_transform": [1], "layers_pattern": 1)", "layers_pattern"},
      {R"("layers_pattern": "layers")", "layers_pattern"},
      {R"("target_modules": ".*", "layers_to_transform": [1])", "layers_to_transform"},
      {R"("target_modules": "all-linear", "layers_to_transform": 1)", "layers_to_transform"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Refusal(c.extra),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("\"" + c.key + "\" = ")))
        << c.extra;
  }
}

TEST(PeftConfigTest, NotAConfig) {
  EXPECT_THAT(RefusalOfText(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOfText("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOfText("[]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(RefusalOfText("null"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(RefusalOfText("{\"peft_type\": \"\xff\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(RefusalOfText(R"({"peft_type": "LORA", "r": 8, "lora_alpha": 1e999})"),
              HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(RefusalOfText(std::string(99, '[') + std::string(99, ']')),
              HasSubstr("nested deeper"));
}

TEST(PeftConfigTest, LimitsAndLongValues) {
  std::string pattern;  // as text, since ordered JSON looks through all keys for each
  OrderedJson names = OrderedJson::array();
  for (int i = 0; i <= kPeftPatternKeysMax; ++i) {
    pattern += (i > 0 ? ", \"m" : "\"m") + std::to_string(i) + "\": 8";
  }
  for (int i = 0; i <= kPeftNamesMax; ++i) names.push_back("m" + std::to_string(i));
  for (const std::string key : {"rank_pattern", "alpha_pattern"}) {
    EXPECT_THAT(Refusal("\"" + key + "\": " + "{" + pattern + "}"),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(key)));
  }
  for (const std::string key : {"target_modules", "exclude_modules"}) {
    EXPECT_THAT(Refusal("\"" + key + "\": " + names.dump()),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(key)));
  }
  // Too many keys, wherever they are, are refused before they cost time.
  std::string many;
  for (int i = 0; i < 300'000; ++i) many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
  EXPECT_THAT(RefusalOfText(R"({"peft_type": "LORA", "eva_config": {)" + many + "}}"),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("300000 keys")));
  // A message stays readable whatever the value.
  EXPECT_LT(Refusal("\"modules_to_save\": " + names.dump()).size(), 400u);
}

// Where a key stands twice, its last value counts, as in Python.
TEST(PeftConfigTest, TheLastOfTwoEqualKeysCounts) {
  EXPECT_THAT(RefusalOfText(R"({"peft_type": "LORA", "r": 8, "lora_alpha": 8,
                                "use_dora": false, "use_dora": true})"),
              HasSubstr("\"use_dora\" = true"));
  const Result<PeftConfig> config =
      ParsePeftConfig(R"({"peft_type": "LORA", "r": 8, "lora_alpha": 8, "r": 2})");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->rank, 2);
}

// Configs that people published. Each is accepted, or refused for exactly the key that matters.
TEST(PeftConfigTest, PublishedConfigs) {
  const std::string dir = SourcePath("../shared/conformance/adapter_configs/");
  if (!std::filesystem::is_directory(dir)) {
    GTEST_SKIP() << "no published configs at " << dir;
  }
  struct Case {
    std::string refusal;  // empty if it is accepted
    int32_t rank = 0;     // if accepted: rank and scale of every module,
    double scale = 0.0;
    size_t num_targets = 0;  // and the number of modules in a model of two layers
  };
  const std::map<std::string, Case> cases = {
      {"00_TinyLlama-1.1B-Chat-v1.0_lora_r16", {"", 16, 2.0, 14}},
      {"00_nobase_ia3_rNone", {"\"peft_type\" = \"IA3\""}},
      {"01_nobase_adalora_r8", {"\"peft_type\" = \"ADALORA\""}},
      {"01_tinyllama-bnb-4bit_lora_r32_mts",
       {"\"modules_to_save\" = [\"lm_head\",\"embed_tokens\"]"}},
      {"02_nobase_loha_r32", {"\"peft_type\" = \"LOHA\""}},
      {"02_nobase_lora_r8", {"", 8, 4.0, 4}},
      {"03_Qwen3-0.6B_lora_r16", {"", 16, 2.0, 4}},
      {"04_llama-7b-hf_lora_r8", {"\"target_modules\" names \"query_key_value\""}},
      {"05_llava-med-v1.5-mistral-7b_lora_r64", {"", 64, 2.0, 14}},
      {"06_granite-3.1-8b-instruct-r241_lora_r32", {"", 32, 1.0, 6}},
      {"06_nobase_prefix_tuning_rNone", {"\"peft_type\" = \"PREFIX_TUNING\""}},
      {"07_qwen2.5-7b-instruct-unsloth-_lora_r32", {"", 32, 1.0, 14}},
      {"08_nobase_lora_r8", {"", 8, 4.0, 4}},
      {"09_Qwen2.5-1.5B-Instruct_lora_r16", {"", 16, 2.0, 8}},
      {"10_aop-pytorch-hub-qwen-7b-chat_lora_r8", {"\"target_modules\" names \"c_proj\""}},
      {"11_Llama-3.2-3B-Instruct_lora_r8", {"", 8, 2.0, 14}},
      {"12_Mistral-7B-Instruct-v0.2_lora_r8", {"", 8, 2.0, 4}},
      {"15_nobase_lora_r32_dora", {"\"use_dora\" = true"}},
      {"17_nobase_lora_r64_rslora", {"", 64, 8.0, 4}},
      {"19_Qwen3.5-4B_lora_r16_dora", {"\"use_dora\" = true"}},
      {"22_Qwen3.5-4B_lora_r256", {"", 256, 0.125, 14}},
      {"23_Qwen3.5-4B_lora_r1_rslora", {"", 1, 32.0, 14}},
      {"26_distilbert-base-uncased_lora_r4_rankpattern_mts",
       {"\"modules_to_save\" = [\"classifier\",\"score\"]"}},
      {"32_gemma-4-31B-it_lora_r8_regex-target-modules", {"", 8, 2.0, 6}},
  };
  ModelConfig model;
  model.num_layers = 2;
  size_t num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::string name = entry.path().stem().stem();
    SCOPED_TRACE(name);
    ++num_files;
    ASSERT_TRUE(cases.contains(name)) << "no expectation for this file";
    const Case& expected = cases.at(name);
    const Result<PeftConfig> config = ParsePeftConfig(*ReadFile(entry.path()));
    const Result<std::vector<LoraTarget>> targets =
        config.ok() ? ResolveLoraTargets(*config, model) : config.status();
    if (!expected.refusal.empty()) {
      ASSERT_FALSE(targets.ok());
      EXPECT_THAT(targets.status().message(), HasSubstr(expected.refusal));
      continue;
    }
    ASSERT_TRUE(targets.ok()) << targets.status().ToString();
    EXPECT_EQ(targets->size(), expected.num_targets);
    for (const LoraTarget& target : *targets) {
      EXPECT_EQ(target.rank, expected.rank);
      EXPECT_FLOAT_EQ(target.scale, static_cast<float>(expected.scale));
    }
  }
  EXPECT_EQ(num_files, cases.size());
}

}  // namespace peft_config_test
}  // namespace graft
