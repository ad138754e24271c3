#include "model/config.h"
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "model/model_test_util.h"

namespace graft {
namespace model_config_test {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SourcePath;
using testing::TempDir;
using testing::WriteFile;

Json TinyLlama() {
  return Json{{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"vocab_size", 100},
              {"hidden_size", 64},
              {"intermediate_size", 96},
              {"num_hidden_layers", 4},
              {"num_attention_heads", 4},
              {"max_position_embeddings", 128}};
}

Json Tiny(const std::string& name, const std::string& model_type) {
  Json json = TinyLlama();
  json["architectures"] = {name};
  json["model_type"] = model_type;
  return json;
}

Json Merged(Json json, const Json& changes) {
  json.update(changes);
  return json;
}

std::vector<int32_t> WindowsOf(const ModelConfig& config) {
  std::vector<int32_t> windows;
  for (const LayerSpec& layer : config.layers) windows.push_back(layer.window);
  return windows;
}

// How parsing `json` fails, as "CODE: message".
std::string Refusal(const Json& json) {
  const Result<ModelConfig> config = ParseModelConfig(json);
  return config.ok() ? "accepted" : config.status().ToString();
}

TEST(ModelConfigTest, Defaults) {
  const Result<ModelConfig> config = ParseModelConfig(TinyLlama());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->architecture, Architecture::kLlama);
  EXPECT_EQ(config->num_kv_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->rms_norm_epsilon, 1e-6f);
  EXPECT_FALSE(config->tied_embeddings || config->qkv_bias || config->o_bias || config->mlp_bias);
  EXPECT_THAT(config->layers, ElementsAre(LayerSpec{.attention_scale = 0.25f}, _, _, _));
  EXPECT_THAT(config->layers, Each(config->layers[0]));
  EXPECT_EQ(config->ropes.size(), 1u);
  EXPECT_EQ(config->ropes[0].theta, 10000.0);
  EXPECT_EQ(config->ropes[0].scaling, RopeScaling::kNone);
  EXPECT_FALSE(config->dtype.has_value());
  EXPECT_FALSE(config->bos_token_id.has_value());
  EXPECT_TRUE(config->eos_token_ids.empty());
}

TEST(ModelConfigTest, ArchitectureIsRefusedByName) {
  EXPECT_THAT(Refusal(Tiny("BloomForCausalLM", "bloom")),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("BloomForCausalLM"),
                    HasSubstr("MistralForCausalLM")));
  EXPECT_THAT(Refusal(Tiny("LlamaForCausalLM", "qwen2")), HasSubstr("contradicts"));
  EXPECT_THAT(Refusal(Tiny("LlamaForSequenceClassification", "llama")),
              HasSubstr("LlamaForSequenceClassification"));
  Json by_type = TinyLlama();
  by_type.erase("architectures");
  EXPECT_TRUE(ParseModelConfig(by_type).ok());
  by_type.erase("model_type");
  EXPECT_THAT(Refusal(by_type), HasSubstr("architectures is missing"));
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"architectures", {"A", "B"}}})),
              HasSubstr("architectures"));
  EXPECT_THAT(Refusal(Json::array()), HasSubstr("object"));
}

TEST(ModelConfigTest, FieldsThatChangeTheComputationAreRefusedByName) {
  const Json cases = {{"quantization_config", {{"quant_method", "fp8"}}},
                      {"hidden_act", "gelu"},
                      {"partial_rotary_factor", 0.5},
                      {"num_experts", 8},
                      {"attn_logit_softcapping", 50.0},
                      {"sliding_window", 64},
                      {"use_qk_norm", true},
                      {"dtype", "float8_e4m3fn"},
                      {"clip_qkv", 8}};
  for (const auto& [name, value] : cases.items()) {
    EXPECT_THAT(Refusal(Merged(TinyLlama(), {{name, value}})),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(name)));
  }
  EXPECT_THAT(Refusal(Merged(Tiny("MistralForCausalLM", "mistral"), {{"attention_bias", true}})),
              HasSubstr("attention_bias"));
  EXPECT_THAT(Refusal(Merged(Tiny("Qwen2ForCausalLM", "qwen2"), {{"mlp_bias", true}})),
              HasSubstr("mlp_bias"));
  // A neutral value means the same as no value.
  EXPECT_TRUE(ParseModelConfig(Merged(TinyLlama(), {{"quantization_config", nullptr},
                                                    {"num_experts", 0},
                                                    {"sliding_window", nullptr},
                                                    {"partial_rotary_factor", 1.0},
                                                    {"is_encoder_decoder", false}}))
                  .ok());
}

TEST(ModelConfigTest, HostileNumbers) {
  const char* dimensions[] = {
      "vocab_size",          "hidden_size",         "intermediate_size", "num_hidden_layers",
      "num_attention_heads", "num_key_value_heads", "head_dim",          "max_position_embeddings"};
  const Json values = {0,    -1,   int64_t{1} << 31, int64_t{1} << 40, UINT64_MAX, INT64_MIN, 1.5,
                       "64", true, Json::array(),    Json::object(),   1e300};
  for (const char* name : dimensions) {
    for (const Json& value : values) {
      EXPECT_THAT(Refusal(Merged(TinyLlama(), {{name, value}})), HasSubstr(name)) << value;
    }
  }
  for (const char* name : {"rms_norm_eps", "rope_theta"}) {
    for (const Json& value : Json{0, -1, 1e300, "x", false}) {
      EXPECT_THAT(Refusal(Merged(TinyLlama(), {{name, value}})), HasSubstr(name)) << value;
    }
  }
  Json not_a_number = TinyLlama();
  not_a_number["rope_theta"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Refusal(not_a_number), HasSubstr("rope_theta"));
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"num_key_value_heads", 3}})), HasSubstr("multiple"));
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"head_dim", 17}})), HasSubstr("head_dim 17"));
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"hidden_size", 66}})), HasSubstr("head_dim"));
  for (const int head_dim : {258, 320, 512}) {
    EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"head_dim", head_dim}})),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("head_dim " + std::to_string(head_dim)),
                      HasSubstr("up to 256"), HasSubstr("CPU"), HasSubstr("GPU")));
  }
  // Every dimension is at its limit; products must stay within 64 bits.
  const Result<ModelConfig> huge =
      ParseModelConfig(Merged(TinyLlama(), {{"vocab_size", 1 << 20},
                                            {"hidden_size", 1 << 16},
                                            {"intermediate_size", 1 << 19},
                                            {"num_hidden_layers", 1024},
                                            {"num_attention_heads", 1024},
                                            {"head_dim", 256},
                                            {"max_position_embeddings", 1 << 24}}));
  ASSERT_TRUE(huge.ok()) << huge.status().ToString();
  EXPECT_GT(huge->num_parameters(), int64_t{1} << 40);
}

TEST(ModelConfigTest, TokenIds) {
  const auto eos = [](const Json& value) {
    return ParseModelConfig(Merged(TinyLlama(), {{"eos_token_id", value}}));
  };
  EXPECT_THAT(eos(7)->eos_token_ids, ElementsAre(7));
  EXPECT_THAT(eos(Json{7, 9})->eos_token_ids, ElementsAre(7, 9));
  EXPECT_TRUE(eos(nullptr)->eos_token_ids.empty());
  for (const Json& bad :
       Json{100, -1, "7", 1.0, Json::array({Json::array({7})}), Json{7, nullptr}}) {
    EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"eos_token_id", bad}})), HasSubstr("eos_token_id"));
  }
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"eos_token_id", std::vector<int>(1000, 1)}})),
              HasSubstr("at most"));
  EXPECT_EQ(*ParseModelConfig(Merged(TinyLlama(), {{"bos_token_id", 3}}))->bos_token_id, 3);
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"bos_token_id", 100}})), HasSubstr("bos_token_id"));
}

TEST(ModelConfigTest, RopeOldAndNewSpelling) {
  const Json linear_cases = {
      {{"rope_theta", 5e5}, {"rope_scaling", {{"type", "linear"}, {"factor", 4}}}},
      {{"rope_theta", 5e5}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}}},
      {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 5e5}}}},
      {{"rope_theta", 5e5}, {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4}}}}};
  for (const Json& change : linear_cases) {
    const Result<ModelConfig> config = ParseModelConfig(Merged(TinyLlama(), change));
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_EQ(config->ropes[0].scaling, RopeScaling::kLinear);
    EXPECT_EQ(config->ropes[0].factor, 4.0);
    EXPECT_EQ(config->ropes[0].theta, 5e5);
  }
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}};
  EXPECT_TRUE(ParseModelConfig(Merged(TinyLlama(), {{"rope_scaling", llama3}})).ok());
  for (const auto& [name, value] : llama3.items()) {
    if (name == "rope_type") continue;
    Json without = llama3;
    without.erase(name);
    EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"rope_scaling", without}})),
                HasSubstr("rope_scaling." + name + " is missing"));
    EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"rope_scaling", Merged(llama3, {{name, -1}})}})),
                HasSubstr("rope_scaling." + name));
  }
  EXPECT_THAT(
      Refusal(Merged(TinyLlama(), {{"rope_scaling", Merged(llama3, {{"high_freq_factor", 1.0}})}})),
      HasSubstr("high_freq_factor"));
}

TEST(ModelConfigTest, Yarn) {
  const Json yarn = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}};
  const auto parsed = [&](const Json& changes) {
    const Result<ModelConfig> config =
        ParseModelConfig(Merged(TinyLlama(), {{"rope_scaling", Merged(yarn, changes)}}));
    CHECK(config.ok()) << config.status().ToString();
    return *config;
  };
  const ModelConfig plain = parsed(Json::object());
  const RopeConfig& rope = plain.ropes[0];
  EXPECT_EQ(rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope.original_tokens, 512);
  EXPECT_EQ(rope.beta_fast, 32.0);
  EXPECT_EQ(rope.beta_slow, 1.0);
  EXPECT_TRUE(rope.truncates);
  EXPECT_DOUBLE_EQ(rope.attention_factor, 0.1 * std::log(4.0) + 1.0);
  EXPECT_EQ(plain.context_tokens_max, 2048) << "the original context times the factor";
  EXPECT_EQ(parsed({{"factor", 1.0}}).ropes[0].attention_factor, 1.0);
  EXPECT_EQ(parsed({{"attention_factor", 0.5}}).ropes[0].attention_factor, 0.5);
  EXPECT_DOUBLE_EQ(parsed({{"mscale", 0.7}, {"mscale_all_dim", 1.4}}).ropes[0].attention_factor,
                   (0.07 * std::log(4.0) + 1.0) / (0.14 * std::log(4.0) + 1.0));
  EXPECT_EQ(parsed({{"mscale", 0.7}}).ropes[0].attention_factor, rope.attention_factor);
  EXPECT_EQ(parsed({{"beta_fast", 0}, {"truncate", false}}).ropes[0].beta_fast, 32.0);
  EXPECT_FALSE(parsed({{"truncate", false}}).ropes[0].truncates);
  EXPECT_FALSE(parsed({{"truncate", nullptr}}).ropes[0].truncates) << "as HF takes it";
  // A config that does not say the original context has its own, which is not stretched.
  const int32_t context = TinyLlama()["max_position_embeddings"];
  const ModelConfig without = parsed({{"original_max_position_embeddings", nullptr}});
  EXPECT_EQ(without.ropes[0].original_tokens, context);
  EXPECT_EQ(without.context_tokens_max, context);

  const auto refusal = [&](const Json& changes) {
    return Refusal(Merged(TinyLlama(), {{"rope_scaling", Merged(yarn, changes)}}));
  };
  EXPECT_THAT(refusal({{"factor", nullptr}}), HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(refusal({{"factor", 0.5}}), HasSubstr("rope_scaling.factor"));
  EXPECT_THAT(refusal({{"beta_fast", 1}, {"beta_slow", 2}}), HasSubstr("beta_fast"));
  EXPECT_THAT(refusal({{"attention_factor", -1}}), HasSubstr("rope_scaling.attention_factor"));
  EXPECT_THAT(refusal({{"rope_theta", 1.0}}), HasSubstr("rope_theta above 1"));
  EXPECT_THAT(Refusal(Merged(TinyLlama(),
                             {{"rope_scaling", yarn}, {"original_max_position_embeddings", 64}})),
              AllOf(HasSubstr("64 for the model"), HasSubstr("512")));
}

TEST(ModelConfigTest, RopeRefusals) {
  for (const char* type : {"dynamic", "longrope", "mrope", "su"}) {
    EXPECT_THAT(
        Refusal(Merged(TinyLlama(), {{"rope_scaling", {{"rope_type", type}, {"factor", 2.0}}}})),
        AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(type), HasSubstr("llama3")));
  }
  const Json per_layer = {{"full_attention", {{"rope_type", "default"}}}};
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"rope_parameters", per_layer}})),
              HasSubstr("rope_parameters.full_attention"));
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"rope_scaling", "linear"}})),
              HasSubstr("rope_scaling"));
  EXPECT_THAT(
      Refusal(Merged(TinyLlama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}})),
      HasSubstr("factor"));
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                                           {"rope_parameters", {{"rope_type", "default"}}}})),
              HasSubstr("different things"));
  EXPECT_THAT(
      Refusal(Merged(TinyLlama(), {{"rope_parameters",
                                    {{"rope_type", "default"}, {"partial_rotary_factor", 0.25}}}})),
      HasSubstr("partial_rotary_factor"));
}

TEST(ModelConfigTest, Windows) {
  const auto windows = [](const std::string& name, const std::string& type, const Json& changes) {
    const Result<ModelConfig> config = ParseModelConfig(Merged(Tiny(name, type), changes));
    EXPECT_TRUE(config.ok()) << config.status().ToString();
    return config.ok() ? WindowsOf(*config) : std::vector<int32_t>();
  };
  const auto mistral = [&](const Json& changes) {
    return windows("MistralForCausalLM", "mistral", changes);
  };
  EXPECT_THAT(mistral({{"sliding_window", 8}}), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(mistral({{"sliding_window", nullptr}}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(mistral(Json::object()), Each(4096));  // the default in HF
  const auto qwen2 = [&](const Json& changes) {
    return windows("Qwen2ForCausalLM", "qwen2", changes);
  };
  EXPECT_THAT(qwen2({{"sliding_window", 8}, {"max_window_layers", 1}}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(
      qwen2({{"sliding_window", 8}, {"use_sliding_window", true}, {"max_window_layers", 1}}),
      ElementsAre(0, 8, 8, 8));
  EXPECT_THAT(qwen2({{"sliding_window", 8}, {"use_sliding_window", true}}), Each(0));  // 28 full
  EXPECT_THAT(
      qwen2({{"sliding_window", 8},
             {"use_sliding_window", true},
             {"layer_types",
              {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}}}),
      ElementsAre(8, 0, 8, 0));
  const Json sliding = {"sliding_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_THAT(Refusal(Merged(Tiny("Qwen3ForCausalLM", "qwen3"), {{"layer_types", sliding}})),
              HasSubstr("layer_types[0]"));
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"layer_types", {"full_attention"}}})),
              HasSubstr("layer_types"));
  EXPECT_THAT(Refusal(Merged(TinyLlama(), {{"layer_types", Json(4, "linear_attention")}})),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("linear_attention")));
}

TEST(ModelConfigTest, BiasesAndNormsPerArchitecture) {
  const ModelConfig llama =
      *ParseModelConfig(Merged(TinyLlama(), {{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && llama.mlp_bias && !llama.layers[0].qk_norm);
  const ModelConfig qwen2 = *ParseModelConfig(Tiny("Qwen2ForCausalLM", "qwen2"));
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.o_bias && !qwen2.mlp_bias && !qwen2.layers[0].qk_norm);
  const ModelConfig qwen3 = *ParseModelConfig(Tiny("Qwen3ForCausalLM", "qwen3"));
  EXPECT_TRUE(!qwen3.qkv_bias && !qwen3.o_bias && !qwen3.mlp_bias && qwen3.layers[0].qk_norm);
  EXPECT_EQ(qwen3.head_dim, 128);
}

struct Conformance {
  const char* file;
  int32_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, context;
  double theta;
  RopeScaling scaling;
  double factor;
  bool tied, qkv_bias;
  std::optional<DType> dtype;
  std::vector<int32_t> eos;
  int64_t parameters;
};

const Conformance kConformance[] = {
    {"Llama-2-7b-hf",
     4096,
     32,
     32,
     32,
     128,
     11008,
     32000,
     4096,
     1e4,
     RopeScaling::kNone,
     1,
     false,
     false,
     DType::kF32,
     {2},
     6738415616},
    {"Llama-2-7b-chat-hf",
     4096,
     32,
     32,
     32,
     128,
     11008,
     32000,
     4096,
     1e4,
     RopeScaling::kNone,
     1,
     false,
     false,
     DType::kF16,
     {2},
     6738415616},
    {"Llama-2-13b-hf",
     5120,
     40,
     40,
     40,
     128,
     13824,
     32000,
     4096,
     1e4,
     RopeScaling::kNone,
     1,
     false,
     false,
     DType::kF32,
     {2},
     13015864320},
    {"Llama-2-70b-chat-hf",
     8192,
     80,
     64,
     8,
     128,
     28672,
     32000,
     4096,
     1e4,
     RopeScaling::kNone,
     1,
     false,
     false,
     DType::kF32,
     {2},
     68976648192},
    {"Llama-3.1-8B",
     4096,
     32,
     32,
     8,
     128,
     14336,
     128256,
     131072,
     5e5,
     RopeScaling::kLlama3,
     8,
     false,
     false,
     DType::kBF16,
     {128001},
     8030261248},
    {"Llama-3.1-70B",
     8192,
     80,
     64,
     8,
     128,
     28672,
     128256,
     131072,
     5e5,
     RopeScaling::kLlama3,
     8,
     false,
     false,
     DType::kBF16,
     {128001},
     70553706496},
    {"Llama-3.2-1B",
     2048,
     16,
     32,
     8,
     64,
     8192,
     128256,
     131072,
     5e5,
     RopeScaling::kLlama3,
     32,
     true,
     false,
     DType::kBF16,
     {128001},
     1235814400},
    {"llama3.1_ollama_testdata",
     4096,
     32,
     32,
     8,
     128,
     14336,
     128256,
     8192,
     5e5,
     RopeScaling::kLlama3,
     8,
     false,
     false,
     std::nullopt,
     {128009},
     8030261248},
    {"Qwen2-0.5B-shape",
     896,
     24,
     14,
     2,
     64,
     4864,
     151936,
     32768,
     1e6,
     RopeScaling::kNone,
     1,
     true,
     true,
     DType::kBF16,
     {151645},
     494032768},
    {"Qwen2.5-3B-shape",
     2048,
     36,
     16,
     2,
     128,
     11008,
     151936,
     32768,
     1e6,
     RopeScaling::kNone,
     1,
     true,
     true,
     DType::kBF16,
     {151645, 151643},
     3085938688},
};

std::string ConformanceDir() { return SourcePath("../shared/conformance/model_configs/"); }

TEST(ModelConfigTest, PublishedConfigs) {
  if (!FileExists(ConformanceDir()))
    GTEST_SKIP() << "no ../shared/conformance beside the repository";
  for (const Conformance& expected : kConformance) {
    SCOPED_TRACE(expected.file);
    const Result<Json> json = ParseJsonFile(ConformanceDir() + expected.file + ".config.json");
    ASSERT_TRUE(json.ok()) << json.status().ToString();
    const Result<ModelConfig> config = ParseModelConfig(*json);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_EQ(config->hidden_size, expected.hidden);
    EXPECT_EQ(config->num_layers, expected.layers);
    EXPECT_EQ(config->num_heads, expected.heads);
    EXPECT_EQ(config->num_kv_heads, expected.kv_heads);
    EXPECT_EQ(config->head_dim, expected.head_dim);
    EXPECT_EQ(config->intermediate_size, expected.intermediate);
    EXPECT_EQ(config->vocab_size, expected.vocab);
    EXPECT_EQ(config->context_tokens_max, expected.context);
    EXPECT_EQ(config->ropes[0].theta, expected.theta);
    EXPECT_EQ(config->ropes[0].scaling, expected.scaling);
    EXPECT_EQ(config->ropes[0].factor, expected.factor);
    EXPECT_EQ(config->tied_embeddings, expected.tied);
    EXPECT_EQ(config->qkv_bias, expected.qkv_bias);
    EXPECT_EQ(config->dtype, expected.dtype);
    EXPECT_EQ(config->eos_token_ids, expected.eos);
    EXPECT_EQ(config->num_parameters(), expected.parameters);
    EXPECT_THAT(WindowsOf(*config), Each(0));
    if (config->ropes[0].scaling == RopeScaling::kLlama3) {
      EXPECT_EQ(config->ropes[0].original_tokens, 8192);
      EXPECT_EQ(config->ropes[0].low_freq_factor, 1.0);
      EXPECT_EQ(config->ropes[0].high_freq_factor, 4.0);
    }
  }
}

TEST(ModelConfigTest, PublishedConfigsThatAreRefused) {
  if (!FileExists(ConformanceDir()))
    GTEST_SKIP() << "no ../shared/conformance beside the repository";
  const auto refusal = [](const std::string& name) {
    return Refusal(*ParseJsonFile(ConformanceDir() + name + ".config.json"));
  };
  EXPECT_THAT(refusal("Qwen3-Coder-30B-A3B"),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("Qwen3MoeForCausalLM"),
                    HasSubstr("mixture of experts")));
}

TEST(ModelConfigTest, FoldersOfTheRepository) {
  const ModelConfig demo = *LoadModelConfig(SourcePath("demo/base"));
  EXPECT_EQ(demo.num_layers, 12);
  EXPECT_EQ(demo.head_dim, 64);
  EXPECT_TRUE(demo.tied_embeddings);
  EXPECT_EQ(demo.dtype, DType::kBF16);
  EXPECT_THAT(demo.eos_token_ids, ElementsAre(1, 3));
  EXPECT_EQ(demo.num_parameters(), 11540736);

  const auto golden = [](const std::string& name) {
    const Result<ModelConfig> config = LoadModelConfig(SourcePath("tests/goldens/" + name));
    CHECK(config.ok()) << config.status().ToString();
    return *config;
  };
  EXPECT_EQ(golden("llama").ropes[0].scaling, RopeScaling::kNone);
  EXPECT_EQ(golden("llama-linear-rope").ropes[0].factor, 4.0);
  EXPECT_EQ(golden("llama3-rope").ropes[0].original_tokens, 64);
  EXPECT_TRUE(golden("llama3-rope").tied_embeddings);
  EXPECT_THAT(WindowsOf(golden("mistral-window")), ElementsAre(8, 8));
  EXPECT_TRUE(golden("qwen2").qkv_bias);
  EXPECT_TRUE(golden("qwen3").layers[0].qk_norm);
  EXPECT_EQ(golden("qwen3").head_dim, 32);
}

TEST(ModelConfigTest, GenerationConfigReplacesEos) {
  const TempDir dir;
  EXPECT_EQ(LoadModelConfig(dir.path()).status().code(), StatusCode::kNotFound);
  WriteFile(dir.File("config.json"), Merged(TinyLlama(), {{"eos_token_id", 2}}).dump());
  EXPECT_THAT(LoadModelConfig(dir.path())->eos_token_ids, ElementsAre(2));
  WriteFile(dir.File("generation_config.json"), R"({"eos_token_id": [5, 6]})");
  EXPECT_THAT(LoadModelConfig(dir.path())->eos_token_ids, ElementsAre(5, 6));
  WriteFile(dir.File("generation_config.json"), R"({"temperature": 0.5})");
  EXPECT_THAT(LoadModelConfig(dir.path())->eos_token_ids, ElementsAre(2));
  EXPECT_THAT(LoadModelConfig(dir.path())->ignored_of_generation, ElementsAre());
  WriteFile(dir.File("config.json"), "{not json");
  EXPECT_THAT(LoadModelConfig(dir.path()).status().message(), HasSubstr("config.json"));
}

TEST(ModelConfigTest, OddValuesOfAGenerationConfigAreLeftOutAndTold) {
  const TempDir dir;
  WriteFile(dir.File("config.json"), Merged(TinyLlama(), {{"eos_token_id", 2}}).dump());
  const auto load = [&](const std::string& generation) {
    WriteFile(dir.File("generation_config.json"), generation);
    const Result<ModelConfig> config = LoadModelConfig(dir.path());
    EXPECT_TRUE(config.ok()) << generation << ": " << config.status().ToString();
    return config.ok() ? *config : ModelConfig();
  };
  const ModelConfig some = load(R"({"eos_token_id": [5, 1000, 6, -1]})");
  EXPECT_THAT(some.eos_token_ids, ElementsAre(5, 6));
  EXPECT_THAT(some.ignored_of_generation,
              ElementsAre(AllOf(HasSubstr("eos_token_id"), HasSubstr("1000")), HasSubstr("-1")));
  for (const char* bad :
       {R"({"eos_token_id": 1000})", R"({"eos_token_id": -1})", R"({"eos_token_id": "</s>"})",
        R"({"eos_token_id": {"a": 1}})", "[]", "{", "", "7"}) {
    const ModelConfig config = load(bad);
    EXPECT_THAT(config.eos_token_ids, ElementsAre(2)) << bad;
    EXPECT_EQ(config.ignored_of_generation.size(), 1u) << bad;
  }
  const std::string many = Json{{"eos_token_id", std::vector<int>(1000, 1)}}.dump();
  EXPECT_THAT(load(many).ignored_of_generation, ElementsAre(HasSubstr("at most 64")));
}

}  // namespace model_config_test
}  // namespace graft
