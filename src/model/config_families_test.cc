// Configs of families that are not plain Llama, and of the kinds of models that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string_view>

#include "base/file.h"
#include "base/json.h"
#include "model/config.h"
#include "model/family.h"
#include "model/lora_module.h"
#include "model/model_test_util.h"
#include "model/shard.h"
#include "model/weights.h"

namespace graft {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SourcePath;

Json Family(const std::string& name, const std::string& model_type) {
  return Json{{"architectures", {name}},  {"model_type", model_type},      {"vocab_size", 100},
              {"hidden_size", 64},        {"intermediate_size", 96},       {"num_hidden_layers", 4},
              {"num_attention_heads", 4}, {"max_position_embeddings", 128}};
}
Json Gemma2() { return Family("Gemma2ForCausalLM", "gemma2"); }
Json Gemma3() { return Family("Gemma3ForCausalLM", "gemma3_text"); }
Json Phi3() { return Family("Phi3ForCausalLM", "phi3"); }

Json With(Json json, const Json& changes) {
  json.update(changes);
  return json;
}

ModelConfig Parsed(const Json& json) {
  const Result<ModelConfig> config = ParseModelConfig(json);
  CHECK(config.ok()) << config.status().ToString();
  return *config;
}

std::string FamilyRefusal(const Json& json) {
  const Result<ModelConfig> config = ParseModelConfig(json);
  return config.ok() ? "accepted" : config.status().ToString();
}

std::vector<int32_t> Windows(const ModelConfig& config) {
  std::vector<int32_t> windows;
  for (const LayerSpec& layer : config.layers) windows.push_back(layer.window);
  return windows;
}

std::vector<int32_t> Ropes(const ModelConfig& config) {
  std::vector<int32_t> ropes;
  for (const LayerSpec& layer : config.layers) ropes.push_back(layer.rope);
  return ropes;
}

// The smallest config of each family in the table makes a model, and names all of its tensors.
TEST(FamiliesTest, EachMakesAModel) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::set<std::string_view> names;
  for (const ModelFamily* family : ModelFamilies()) {
    SCOPED_TRACE(family->name);
    EXPECT_EQ(&FamilyOf(family->architecture), family);
    EXPECT_TRUE(names.insert(family->name).second && names.insert(family->model_type).second);
    Json json = Family(std::string(family->name), std::string(family->model_type));
    const DimensionNames& dimensions = family->dimensions;
    json[std::string(dimensions.hidden)] = json["hidden_size"];
    json[std::string(dimensions.intermediate)] = json["intermediate_size"];
    json[std::string(dimensions.layers)] = json["num_hidden_layers"];
    json[std::string(dimensions.heads)] = json["num_attention_heads"];
    json[std::string(dimensions.context)] = json["max_position_embeddings"];
    json["rotary_pct"] = 1.0;  // of heads of 16 no fourth turns
    json["attention_types"] = Json::array({Json::array({Json::array({"local"}), 4})});
    const ModelConfig config = Parsed(json);
    EXPECT_EQ(ArchitectureName(config.architecture), family->name);
    int next = 0;  // its projections hold the modules one after the other
    for (const StoredProjection& projection : StoredProjections(config)) {
      EXPECT_EQ(static_cast<int>(projection.first), next);
      next += projection.num_modules;
    }
    EXPECT_EQ(next, config.num_lora_targets());
    int64_t num_done = 0;
    const ModelWeights weights =
        RandomWeights(config, TypesOf(DType::kF32), 1, stream,
                      [&num_done](int64_t done, int64_t) { num_done = done; });
    EXPECT_EQ(num_done, config.num_parameters());
    EXPECT_EQ(weights.bytes(), WeightsBytes(config, TypesOf(DType::kF32), {}));
    // A config of the family without "architectures" is known by its model_type.
    Json by_type = json;
    by_type.erase("architectures");
    EXPECT_EQ(Parsed(by_type).architecture, family->architecture);
  }
}

TEST(GemmaConfigTest, TheFirstGemma) {
  const Json gemma = Family("GemmaForCausalLM", "gemma");
  const ModelConfig config = Parsed(gemma);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_TRUE(config.tied_embeddings && config.scales_embeddings && config.norms_add_one);
  EXPECT_EQ(config.logit_cap, 0.0f);
  EXPECT_THAT(config.layers, Each(LayerSpec{.attention_scale = 1.0f / 16.0f,
                                            .activation = Activation::kGeluTanh}));
  // As first published, and as today.
  EXPECT_EQ(Parsed(With(gemma, {{"hidden_act", "gelu"}, {"hidden_activation", nullptr}})).layers,
            config.layers);
  EXPECT_EQ(Parsed(With(gemma, {{"hidden_act", "gelu_pytorch_tanh"}})).layers, config.layers);
  EXPECT_TRUE(Parsed(With(gemma, {{"attention_bias", true}})).o_bias);
  for (const Json& wrong :
       {Json{{"hidden_act", "silu"}}, Json{{"hidden_activation", "gelu"}},
        Json{{"attn_logit_softcapping", 50.0}}, Json{{"query_pre_attn_scalar", 224}},
        Json{{"sliding_window", 8}}, Json{{"use_bidirectional_attention", true}}}) {
    EXPECT_THAT(FamilyRefusal(With(gemma, wrong)),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(wrong.begin().key())));
  }
}

TEST(GemmaConfigTest, Gemma2Defaults) {
  const ModelConfig config = Parsed(Gemma2());
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.rms_norm_epsilon, 1e-6f);
  EXPECT_TRUE(config.tied_embeddings && config.scales_embeddings && config.norms_add_one);
  EXPECT_FALSE(HasFusedProjections(config) || config.qkv_bias);
  EXPECT_EQ(config.logit_cap, 30.0f);
  EXPECT_THAT(config.layers[1], (LayerSpec{.attention_scale = 1.0f / 16.0f,
                                           .score_cap = 50.0f,
                                           .output_norms = true,
                                           .activation = Activation::kGeluTanh}));
  EXPECT_THAT(Windows(config), ElementsAre(4096, 0, 4096, 0));
  EXPECT_EQ(config.ropes.size(), 1u);
  EXPECT_EQ(config.ropes[0].theta, 10000.0);
}

TEST(GemmaConfigTest, Gemma2Fields) {
  const ModelConfig config = Parsed(With(Gemma2(), {{"attn_logit_softcapping", nullptr},
                                                    {"final_logit_softcapping", 20.0},
                                                    {"query_pre_attn_scalar", 144},
                                                    {"attention_bias", true},
                                                    {"sliding_window", 8},
                                                    {"hidden_act", "gelu_pytorch_tanh"},
                                                    {"cache_implementation", "hybrid"},
                                                    {"tie_word_embeddings", false}}));
  EXPECT_EQ(config.layers[0].score_cap, 0.0f);
  EXPECT_EQ(config.logit_cap, 20.0f);
  EXPECT_FLOAT_EQ(config.layers[0].attention_scale, 1.0f / 12.0f);
  EXPECT_TRUE(config.qkv_bias && config.o_bias);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_THAT(Windows(config), ElementsAre(8, 0, 8, 0));
  for (const Json& wrong : {Json{{"hidden_activation", "gelu"}}, Json{{"hidden_act", "silu"}},
                            Json{{"use_bidirectional_attention", true}}}) {
    EXPECT_THAT(FamilyRefusal(With(Gemma2(), wrong)),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(wrong.begin().key())));
  }
  EXPECT_THAT(FamilyRefusal(With(Gemma2(), {{"attn_logit_softcapping", -1.0}})),
              HasSubstr("attn_logit_softcapping"));
  EXPECT_THAT(FamilyRefusal(With(Gemma2(), {{"sliding_window", nullptr}})),
              HasSubstr("sliding_window gives no size"));
}

TEST(GemmaConfigTest, Gemma3TwoRopes) {
  const ModelConfig plain = Parsed(With(Gemma3(), {{"num_hidden_layers", 7}}));
  EXPECT_THAT(Windows(plain), ElementsAre(4096, 4096, 4096, 4096, 4096, 0, 4096));
  EXPECT_THAT(Ropes(plain), ElementsAre(1, 1, 1, 1, 1, 0, 1));
  EXPECT_EQ(plain.ropes[0].theta, 1e6);
  EXPECT_EQ(plain.ropes[1].theta, 1e4);
  EXPECT_TRUE(plain.layers[0].qk_norm && plain.layers[0].output_norms);
  EXPECT_EQ(plain.layers[0].score_cap, 0.0f);
  EXPECT_EQ(plain.logit_cap, 0.0f);

  // Once as published, once as transformers 5 writes it.
  const ModelConfig older =
      Parsed(With(Gemma3(), {{"sliding_window_pattern", 2},
                             {"sliding_window", 16},
                             {"rope_theta", 2e6},
                             {"rope_local_base_freq", 3e4},
                             {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}));
  const ModelConfig newer = Parsed(
      With(Gemma3(),
           {{"_sliding_window_pattern", 2},
            {"sliding_window", 16},
            {"rope_parameters",
             {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}},
              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}}}}));
  for (const ModelConfig& config : {older, newer}) {
    EXPECT_THAT(Windows(config), ElementsAre(16, 0, 16, 0));
    EXPECT_THAT(Ropes(config), ElementsAre(1, 0, 1, 0));
    ASSERT_EQ(config.ropes.size(), 2u);
    EXPECT_EQ(config.ropes[0].scaling, RopeScaling::kLinear);
    EXPECT_EQ(config.ropes[0].factor, 8.0);
    EXPECT_EQ(config.ropes[0].theta, 2e6);
    EXPECT_EQ(config.ropes[1].scaling, RopeScaling::kNone);
    EXPECT_EQ(config.ropes[1].theta, 3e4);
  }
  EXPECT_THAT(FamilyRefusal(With(Gemma3(), {{"rope_parameters", {{"rope_theta", 1e4}}}})),
              HasSubstr("rope_parameters.rope_theta"));
}

Json LongRope(int n) {
  return {{"type", "longrope"},
          {"short_factor", std::vector<double>(n, 1.0)},
          {"long_factor", std::vector<double>(n, 4.0)}};
}

TEST(PhiConfigTest, LongRope) {
  const ModelConfig config = Parsed(
      With(Phi3(), {{"rope_scaling", LongRope(8)}, {"original_max_position_embeddings", 32}}));
  EXPECT_TRUE(HasFusedProjections(config));
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.rms_norm_epsilon, 1e-5f);
  EXPECT_THAT(Windows(config), Each(0));
  const RopeConfig& rope = config.ropes[0];
  EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
  EXPECT_EQ(rope.original_tokens, 32);
  EXPECT_THAT(rope.long_factors, ElementsAre(4, 4, 4, 4, 4, 4, 4, 4));
  EXPECT_DOUBLE_EQ(rope.attention_factor, std::sqrt(1.0 + std::log(4.0) / std::log(32.0)));
  EXPECT_EQ(Parsed(With(Phi3(), {{"rope_scaling", LongRope(8)}})).ropes[0].attention_factor, 1.0)
      << "a context of 128 is below the original 4096";
  const auto refusal = [](const Json& changes) {
    return FamilyRefusal(With(Phi3(), {{"rope_scaling", With(LongRope(8), changes)}}));
  };
  EXPECT_THAT(refusal({{"short_factor", {1.0, 2.0}}}), HasSubstr("a list of 8 numbers"));
  EXPECT_THAT(refusal({{"long_factor", nullptr}}), HasSubstr("long_factor is missing"));
  EXPECT_THAT(refusal({{"original_max_position_embeddings", 64}}), HasSubstr("4096"));
  EXPECT_THAT(refusal({{"short_mscale", 1.2}}), HasSubstr("short_mscale"));
  EXPECT_THAT(refusal({{"type", "linear"}}), HasSubstr("rope_type"));
  EXPECT_THAT(FamilyRefusal(With(Phi3(), {{"attention_bias", true}})), HasSubstr("attention_bias"));
}

TEST(PhiConfigTest, PartialRotaryAndWindow) {
  const Json rope = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  const Json newer = With(Phi3(), {{"rope_parameters", rope}, {"sliding_window", 9}});
  EXPECT_EQ(Parsed(newer).num_rotary(), 8);
  EXPECT_THAT(Windows(Parsed(newer)), ElementsAre(9, 9, 9, 9));
  EXPECT_EQ(Parsed(With(Phi3(), {{"partial_rotary_factor", 0.5}})).num_rotary(), 8);
  EXPECT_EQ(Parsed(Phi3()).num_rotary(), 16);
  EXPECT_THAT(FamilyRefusal(With(Phi3(), {{"partial_rotary_factor", 0.4}})),
              AllOf(HasSubstr("partial_rotary_factor"), HasSubstr("multiple of 8")));
  EXPECT_THAT(FamilyRefusal(With(Phi3(), {{"partial_rotary_factor", 1.5}})),
              HasSubstr("partial_rotary_factor"));
}

TEST(SmolLm3ConfigTest, LayersThatDoNotRotate) {
  const Json smol = Family("SmolLM3ForCausalLM", "smollm3");
  const ModelConfig config = Parsed(smol);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FALSE(config.qkv_bias || config.o_bias || config.mlp_bias);
  EXPECT_EQ(config.rms_norm_epsilon, 1e-6f);
  EXPECT_THAT(Ropes(config), ElementsAre(0, 0, 0, 1))
      << "every fourth layer, unless told otherwise";
  ASSERT_EQ(config.ropes.size(), 2u);
  EXPECT_EQ(config.ropes[0].theta, 2e6);
  EXPECT_EQ(config.ropes[1].scaling, RopeScaling::kNoRotation);
  EXPECT_THAT(Windows(config), Each(0));
  const ModelConfig listed = Parsed(With(smol, {{"no_rope_layers", {1, 0, 0, 1}},
                                                {"no_rope_layer_interval", 2},
                                                {"attention_bias", true},
                                                {"mlp_bias", true}}));
  EXPECT_THAT(Ropes(listed), ElementsAre(0, 1, 1, 0));
  EXPECT_TRUE(listed.qkv_bias && listed.o_bias && listed.mlp_bias);
  EXPECT_THAT(Ropes(Parsed(With(smol, {{"no_rope_layer_interval", 2}}))), ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(Parsed(With(smol, {{"no_rope_layers", {1, 1, 1, 1}}})).ropes.size(), 1u);
  // By default those that do not rotate slide, if any do.
  const Json window = {{"sliding_window", 9}, {"use_sliding_window", true}};
  EXPECT_THAT(Windows(Parsed(With(smol, window))), ElementsAre(0, 0, 0, 9));
  EXPECT_THAT(Windows(Parsed(With(smol, {{"sliding_window", 9}}))), Each(0));
  for (const Json& wrong : {Json{1, 0, 1}, Json{1, 0, 1, 2}, Json("none")}) {
    EXPECT_THAT(FamilyRefusal(With(smol, {{"no_rope_layers", wrong}})),
                AllOf(HasSubstr("no_rope_layers"), HasSubstr("1 for a layer that rotates")));
  }
  EXPECT_THAT(FamilyRefusal(With(smol, {{"no_rope_layer_interval", 0}})),
              HasSubstr("no_rope_layer_interval"));
  EXPECT_THAT(
      FamilyRefusal(With(Family("LlamaForCausalLM", "llama"), {{"no_rope_layers", {1, 0}}})),
      AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("no_rope_layers")));
}

TEST(GraniteConfigTest, Multipliers) {
  const Json granite = Family("GraniteForCausalLM", "granite");
  const ModelConfig plain = Parsed(granite);
  EXPECT_FALSE(plain.tied_embeddings || plain.qkv_bias || plain.mlp_bias);
  EXPECT_EQ(plain.hidden_scale, 1.0f);
  EXPECT_EQ(plain.logit_scale, 1.0f);
  EXPECT_THAT(plain.layers, Each(LayerSpec{.attention_scale = 1.0f})) << "HF's default, no 1/sqrt";
  EXPECT_FALSE(plain.layers[0].has_branch());
  const ModelConfig config = Parsed(With(granite, {{"embedding_multiplier", 12.0},
                                                   {"attention_multiplier", 0.0078125},
                                                   {"residual_multiplier", 0.22},
                                                   {"logits_scaling", 8},
                                                   {"attention_bias", true},
                                                   {"mlp_bias", true}}));
  EXPECT_EQ(config.hidden_scale, 12.0f);
  EXPECT_EQ(config.logit_scale, 0.125f);
  EXPECT_THAT(config.layers,
              Each(LayerSpec{.attention_scale = 0.0078125f, .residual_scale = 0.22f}));
  EXPECT_TRUE(config.layers[0].has_branch());
  EXPECT_TRUE(config.layers[0].writes_branch(/*has_ranks=*/true));
  EXPECT_FALSE(config.layers[0].writes_branch(/*has_ranks=*/false));
  EXPECT_TRUE(config.qkv_bias && config.o_bias && config.mlp_bias);
  for (const char* name :
       {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    EXPECT_THAT(FamilyRefusal(With(granite, {{name, 0}})),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(name)));
    EXPECT_THAT(FamilyRefusal(With(Family("LlamaForCausalLM", "llama"), {{name, 2.0}})),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(name)));
  }
  EXPECT_THAT(FamilyRefusal(With(granite, {{"sliding_window", 8}})),
              HasSubstr("null for GraniteForCausalLM"));
}

TEST(Olmo2ConfigTest, NormsBehindBlocksAlone) {
  const Json olmo = Family("Olmo2ForCausalLM", "olmo2");
  const ModelConfig config = Parsed(olmo);
  EXPECT_FALSE(config.tied_embeddings || config.qkv_bias || config.norms_add_one);
  EXPECT_EQ(config.rms_norm_epsilon, 1e-5f);
  EXPECT_THAT(config.layers, Each(LayerSpec{.attention_scale = 0.25f,
                                            .qk_norm = true,
                                            .qk_norm_across_heads = true,
                                            .input_norms = false,
                                            .output_norms = true}));
  // Two norms of the hidden state, q's 64 columns and k's 64.
  EXPECT_EQ(config.norm_elements(config.layers[0]), 2 * 64 + 64 + 64);
  EXPECT_TRUE(Parsed(With(olmo, {{"attention_bias", true}})).o_bias);
  for (const Json& wrong : {Json{{"clip_qkv", 8.0}}, Json{{"sliding_window", 8}},
                            Json{{"mlp_bias", true}}, Json{{"use_qk_norm", false}}}) {
    EXPECT_THAT(FamilyRefusal(With(olmo, wrong)),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(wrong.begin().key())));
  }
  EXPECT_THAT(FamilyRefusal(Family("OlmoForCausalLM", "olmo")), HasSubstr("Olmo2ForCausalLM"));
}

TEST(Olmo3ConfigTest, WindowsAndTheirAngles) {
  const Json olmo = With(Family("Olmo3ForCausalLM", "olmo3"), {{"num_hidden_layers", 5}});
  const ModelConfig config = Parsed(olmo);
  EXPECT_THAT(Windows(config), ElementsAre(4096, 4096, 4096, 0, 4096));
  EXPECT_THAT(Ropes(config), ElementsAre(1, 1, 1, 0, 1));
  EXPECT_EQ(config.layers[3], (LayerSpec{.attention_scale = 0.25f,
                                         .qk_norm = true,
                                         .qk_norm_across_heads = true,
                                         .input_norms = false,
                                         .output_norms = true}));
  ASSERT_EQ(config.ropes.size(), 2u);
  for (const RopeConfig& rope : config.ropes) {
    EXPECT_EQ(rope.theta, 5e5);
    EXPECT_EQ(rope.scaling, RopeScaling::kNone);
  }
  // As published, and as transformers 5 writes it: the scaling is of full attention alone.
  const Json yarn = {
      {"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 8192}};
  const ModelConfig older = Parsed(With(
      olmo, {{"rope_theta", 1e6}, {"rope_scaling", yarn}, {"max_position_embeddings", 65536}}));
  const Json sets = {{"full_attention", With(yarn, {{"rope_theta", 1e6}})},
                     {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}}};
  const ModelConfig newer =
      Parsed(With(olmo, {{"rope_parameters", sets}, {"max_position_embeddings", 65536}}));
  for (const ModelConfig& stretched : {older, newer}) {
    EXPECT_EQ(stretched.ropes[0].scaling, RopeScaling::kYarn);
    EXPECT_EQ(stretched.ropes[1].scaling, RopeScaling::kNone);
    EXPECT_EQ(stretched.ropes[0].theta, 1e6);
    EXPECT_EQ(stretched.ropes[1].theta, 1e6);
    EXPECT_EQ(stretched.context_tokens_max, 65536);
  }
  EXPECT_THAT(FamilyRefusal(With(olmo, {{"sliding_window", nullptr}})),
              HasSubstr("sliding_window gives no size"));
  EXPECT_THAT(FamilyRefusal(With(olmo, {{"clip_qkv", 8.0}})), HasSubstr("clip_qkv"));
}

TEST(Exaone4ConfigTest, LayersThatAttendFullyDoNotRotate) {
  const Json exaone = Family("Exaone4ForCausalLM", "exaone4");
  const ModelConfig config = Parsed(exaone);
  EXPECT_THAT(Windows(config), ElementsAre(4096, 4096, 4096, 0));
  EXPECT_THAT(Ropes(config), ElementsAre(0, 0, 0, 1));
  ASSERT_EQ(config.ropes.size(), 2u);
  EXPECT_EQ(config.ropes[1].scaling, RopeScaling::kNoRotation);
  EXPECT_EQ(config.layers[3], (LayerSpec{.rope = 1,
                                         .attention_scale = 0.25f,
                                         .qk_norm = true,
                                         .input_norms = false,
                                         .output_norms = true}));
  EXPECT_EQ(config.norm_elements(config.layers[0]), 2 * 64 + 2 * 16);
  // The small model: no window, and all layers rotate.
  const ModelConfig small = Parsed(With(exaone, {{"sliding_window", nullptr}}));
  EXPECT_THAT(Windows(small), Each(0));
  EXPECT_THAT(Ropes(small), Each(0));
  EXPECT_EQ(small.ropes.size(), 1u);
  // The large one lists its layers beside a pattern of letters.
  const Json letters = {{"sliding_window", 8}, {"sliding_window_pattern", "LLLG"}};
  const std::vector<std::string> types = {"sliding_attention", "full_attention", "full_attention",
                                          "sliding_attention"};
  const ModelConfig listed = Parsed(With(With(exaone, letters), {{"layer_types", types}}));
  EXPECT_THAT(Windows(listed), ElementsAre(8, 0, 0, 8));
  EXPECT_THAT(Ropes(listed), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(FamilyRefusal(With(exaone, letters)),
              AllOf(HasSubstr("sliding_window_pattern"), HasSubstr("layer_types")));
  EXPECT_THAT(Windows(Parsed(With(exaone, {{"sliding_window_pattern", 2}}))),
              ElementsAre(4096, 0, 4096, 0));
  EXPECT_THAT(FamilyRefusal(With(exaone, {{"attention_bias", true}})), HasSubstr("attention_bias"));
}

TEST(GlmConfigTest, BothClasses) {
  for (const auto& [json, behind] : {std::pair(Family("GlmForCausalLM", "glm"), false),
                                     std::pair(Family("Glm4ForCausalLM", "glm4"), true)}) {
    const ModelConfig config = Parsed(json);
    EXPECT_EQ(config.head_dim, 128);
    EXPECT_EQ(config.num_rotary(), 64) << "half of a head, unless told otherwise";
    EXPECT_TRUE(config.rope_interleaved && config.qkv_bias && HasFusedProjections(config));
    EXPECT_FALSE(config.o_bias || config.tied_embeddings);
    EXPECT_FLOAT_EQ(config.rms_norm_epsilon, 1.5625e-7f);
    EXPECT_EQ(config.ropes[0].theta, 1e4);
    EXPECT_THAT(config.layers, Each(LayerSpec{.attention_scale = config.layers[0].attention_scale,
                                              .output_norms = behind}));
    EXPECT_FALSE(Parsed(With(json, {{"attention_bias", false}})).qkv_bias);
    EXPECT_EQ(Parsed(With(json, {{"partial_rotary_factor", 0.75}})).num_rotary(), 96);
    const Json rope = {{"rope_type", "default"}, {"partial_rotary_factor", 1.0}};
    EXPECT_EQ(Parsed(With(json, {{"rope_parameters", rope}})).num_rotary(), 128);
    for (const Json& wrong : {Json{{"sliding_window", 8}}, Json{{"mlp_bias", true}},
                              Json{{"use_qk_norm", true}}, Json{{"hidden_act", "gelu"}}}) {
      EXPECT_THAT(FamilyRefusal(With(json, wrong)),
                  AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(wrong.begin().key())));
    }
    // Each stored projection's name is a module that adapters may target.
    EXPECT_EQ(LoraModulePath(config, 1, LoraModule::kUp), "model.layers.1.mlp.gate_up_proj");
    EXPECT_EQ(LoraModulePath(config, 1, LoraModule::kV), "model.layers.1.self_attn.v_proj");
  }
}

TEST(PhiConfigTest, Published) {
  const std::string path = SourcePath("../shared/conformance/model_configs/phi-4-mini.config.json");
  if (!FileExists(path)) GTEST_SKIP() << "no ../shared/conformance beside the repository";
  const ModelConfig config = Parsed(*ParseJsonFile(path));
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.num_rotary(), 96);
  EXPECT_EQ(config.ropes[0].long_factors.size(), 48u);
  EXPECT_DOUBLE_EQ(config.ropes[0].attention_factor,
                   std::sqrt(1.0 + std::log(32.0) / std::log(4096.0)));
  EXPECT_EQ(config.layers[0].window, 262144);
  EXPECT_EQ(config.num_parameters(), 3836021760);
}

// With the keys that these configs have.
Json Gpt2() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", 100},
          {"n_embd", 64},
          {"n_layer", 4},
          {"n_head", 4},
          {"n_positions", 128}};
}
Json GptNeo() {
  return {{"architectures", {"GPTNeoForCausalLM"}},
          {"model_type", "gpt_neo"},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"num_layers", 4},
          {"num_heads", 4},
          {"max_position_embeddings", 128},
          {"attention_types", {{{"global", "local"}, 2}}}};
}
Json GptNeoX() {
  return With(Family("GPTNeoXForCausalLM", "gpt_neox"), {{"num_attention_heads", 2}});
}

// What GPT-2 and those after it have in common.
void ExpectPlainMlp(const ModelConfig& config, Activation activation) {
  EXPECT_TRUE(config.norm == NormKind::kLayer && !config.gated_mlp && config.mlp_bias);
  EXPECT_EQ(config.rms_norm_epsilon, 1e-5f);
  EXPECT_EQ(config.num_lora_targets(), 6);
  EXPECT_FALSE(HasDenseTargets(config));
  for (const LayerSpec& layer : config.layers) EXPECT_EQ(layer.activation, activation);
}

TEST(Gpt2ConfigTest, ClassDefaultsAndFields) {
  const ModelConfig config = Parsed(Gpt2());
  ExpectPlainMlp(config, Activation::kGeluTanh);
  EXPECT_TRUE(config.tied_embeddings && config.qkv_bias && config.o_bias && !config.head_bias);
  EXPECT_EQ(config.intermediate_size, 256);
  EXPECT_EQ(config.num_positions, 128);
  EXPECT_EQ(config.ropes[0].scaling, RopeScaling::kNoRotation);
  EXPECT_EQ(config.layers[3].attention_scale, 0.25f);
  EXPECT_EQ(LoraModulePath(config, 2, LoraModule::kV), "transformer.h.2.attn.c_attn");
  EXPECT_EQ(NameOfStored(config, StoredProjections(config)[3]), "mlp.c_proj");
  EXPECT_EQ(config.norm_elements(config.layers[0]), 4 * 64);

  const Json other = With(Gpt2(), {{"n_inner", 96},
                                   {"layer_norm_epsilon", 1e-3},
                                   {"activation_function", "relu"},
                                   {"scale_attn_by_inverse_layer_idx", true}});
  EXPECT_EQ(Parsed(other).intermediate_size, 96);
  EXPECT_EQ(Parsed(other).rms_norm_epsilon, 1e-3f);
  EXPECT_EQ(Parsed(other).layers[3].attention_scale, 0.0625f);
  EXPECT_EQ(Parsed(other).layers[0].activation, Activation::kRelu);
  EXPECT_EQ(Parsed(With(other, {{"scale_attn_weights", false}})).layers[1].attention_scale, 0.5f);

  for (const Json& wrong : {Json{{"activation_function", "tanh"}},
                            Json{{"add_cross_attention", true}}, Json{{"mlp_bias", true}}}) {
    EXPECT_THAT(FamilyRefusal(With(Gpt2(), wrong)),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(wrong.begin().key())));
  }
  EXPECT_THAT(FamilyRefusal(With(Gpt2(), {{"n_head", nullptr}})), HasSubstr("n_head is missing"));
  EXPECT_THAT(FamilyRefusal(With(Gpt2(), {{"n_head", 5}})),
              HasSubstr("n_embd 64 is not a multiple of n_head 5"));
  EXPECT_THAT(FamilyRefusal(With(Family("LlamaForCausalLM", "llama"),
                                 {{"scale_attn_by_inverse_layer_idx", true}})),
              HasSubstr("scale_attn_by_inverse_layer_idx"));
}

TEST(GptNeoConfigTest, LocalLayersAndUnscaledAttention) {
  const ModelConfig config = Parsed(GptNeo());
  ExpectPlainMlp(config, Activation::kGeluTanh);
  EXPECT_TRUE(config.tied_embeddings && !config.qkv_bias && config.o_bias);
  EXPECT_EQ(config.intermediate_size, 256);
  EXPECT_EQ(config.num_positions, 128);
  EXPECT_EQ(config.layers[0].attention_scale, 1.0f);
  EXPECT_THAT(Windows(config), ElementsAre(0, 256, 0, 256));
  EXPECT_EQ(LoraModulePath(config, 1, LoraModule::kO), "transformer.h.1.attn.attention.out_proj");
  const Json shorter = With(GptNeo(), {{"window_size", 7}, {"attention_types", {{{"local"}, 4}}}});
  EXPECT_THAT(Windows(Parsed(shorter)), Each(7));
  for (const Json& types : {Json{{{"global", "local"}, 3}}, Json{{{"global"}, 3}},
                            Json{{{"other"}, 4}}, Json{{{"global"}, -4}}, Json{"global"},
                            Json("global"), Json{{"global", 4}}, Json(nullptr)}) {
    EXPECT_THAT(FamilyRefusal(With(GptNeo(), {{"attention_types", types}})),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("attention_types")))
        << types;
  }
}

TEST(GptNeoXConfigTest, ParallelByDefaultAndOlderNames) {
  const ModelConfig config = Parsed(GptNeoX());
  ExpectPlainMlp(config, Activation::kGelu);
  EXPECT_TRUE(!config.tied_embeddings && config.qkv_bias && config.o_bias);
  EXPECT_TRUE(config.layers[3].parallel && config.layers[3].has_second_norm());
  EXPECT_EQ(config.num_rotary(), 8);
  EXPECT_EQ(LoraModulePath(config, 1, LoraModule::kK),
            "gpt_neox.layers.1.attention.query_key_value");
  EXPECT_EQ(LoraModulePath(config, 1, static_cast<LoraModule>(4)),
            "gpt_neox.layers.1.mlp.dense_h_to_4h");
  // The second head of the values.
  EXPECT_EQ(StoredRowsOf(config, LoraModule::kV, {32, 64}),
            (std::vector<IndexRange>{{5 * 32, 6 * 32}}));

  const Json older = With(GptNeoX(), {{"rotary_pct", 0.5},
                                      {"rotary_emb_base", 5000},
                                      {"attention_bias", false},
                                      {"use_parallel_residual", false},
                                      {"hidden_act", "gelu_fast"}});
  EXPECT_EQ(Parsed(older).num_rotary(), 16);
  EXPECT_EQ(Parsed(older).ropes[0].theta, 5000.0);
  EXPECT_FALSE(Parsed(older).qkv_bias || Parsed(older).o_bias || Parsed(older).layers[0].parallel);
  EXPECT_EQ(Parsed(older).layers[0].activation, Activation::kGeluTanh);
  const Json newer = With(
      GptNeoX(), {{"rope_parameters", {{"rope_theta", 700.0}, {"partial_rotary_factor", 1.0}}}});
  EXPECT_EQ(Parsed(newer).num_rotary(), 32);
  EXPECT_EQ(Parsed(newer).ropes[0].theta, 700.0);
  EXPECT_THAT(FamilyRefusal(With(GptNeoX(), {{"num_key_value_heads", 1}})),
              HasSubstr("num_key_value_heads"));
  EXPECT_THAT(FamilyRefusal(With(GptNeoX(), {{"rotary_pct", 0.3}})), HasSubstr("multiple of 8"));
}

TEST(OlderPhiConfigTest, OneNormAndBiasesEverywhere) {
  const Json phi = Family("PhiForCausalLM", "phi");
  const ModelConfig config = Parsed(phi);
  ExpectPlainMlp(config, Activation::kGeluTanh);
  EXPECT_TRUE(!config.tied_embeddings && config.qkv_bias && config.o_bias && config.head_bias);
  EXPECT_TRUE(config.layers[1].parallel && config.layers[1].shares_norm);
  EXPECT_EQ(config.norm_elements(config.layers[1]), 2 * 64);
  EXPECT_EQ(config.num_rotary(), 8);
  EXPECT_EQ(LoraModulePath(config, 0, LoraModule::kO), "model.layers.0.self_attn.dense");
  EXPECT_EQ(Parsed(With(phi, {{"partial_rotary_factor", 1.0}})).num_rotary(), 16);
  EXPECT_EQ(Parsed(With(phi, {{"num_key_value_heads", 2}})).num_kv_heads, 2);
  EXPECT_THAT(FamilyRefusal(With(phi, {{"qk_layernorm", true}})), HasSubstr("qk_layernorm"));
}

TEST(StarCoder2ConfigTest, WindowBiasesAndGroupedHeads) {
  const Json coder = Family("Starcoder2ForCausalLM", "starcoder2");
  const ModelConfig config = Parsed(coder);
  ExpectPlainMlp(config, Activation::kGeluTanh);
  EXPECT_TRUE(config.tied_embeddings && config.qkv_bias && config.o_bias);
  EXPECT_THAT(Windows(config), Each(0));
  EXPECT_EQ(LoraModulePath(config, 0, static_cast<LoraModule>(5)), "model.layers.0.mlp.c_proj");
  const Json other = With(coder, {{"sliding_window", 9},
                                  {"num_key_value_heads", 2},
                                  {"norm_epsilon", 1e-3},
                                  {"use_bias", false}});
  EXPECT_THAT(Windows(Parsed(other)), Each(9));
  EXPECT_EQ(Parsed(other).rms_norm_epsilon, 1e-3f);
  EXPECT_FALSE(Parsed(other).qkv_bias || Parsed(other).o_bias || Parsed(other).mlp_bias);
}

TEST(RefusedKindsTest, AreNamedWithTheirReason) {
  const std::pair<const char*, const char*> kinds[] = {
      {"Qwen3MoeForCausalLM", "mixture of experts"},
      {"MixtralForCausalLM", "mixture of experts"},
      {"PhiMoEForCausalLM", "mixture of experts"},
      {"DeepseekV3ForCausalLM", "mixture of experts"},
      {"GptOssForCausalLM", "mixture of experts"},
      {"PaliGemmaForConditionalGeneration", "images"},
      {"Phi3VForCausalLM", "images"},
      {"Gemma3nForConditionalGeneration", "images"},
      {"MllamaForConditionalGeneration", "images"},
      {"Qwen3NextForCausalLM", "not all attention"},
      {"JambaForCausalLM", "not all attention"},
      {"Mamba2ForCausalLM", "not all attention"},
      {"RecurrentGemmaForCausalLM", "not all attention"},
      {"GraniteMoeHybridForCausalLM", "not all attention"},
      {"ChatGLMModel", "GlmForCausalLM, in the repositories whose names end in -hf"},
      {"ChatGLMForConditionalGeneration", "trust_remote_code"},
      {"BloomForCausalLM", "is not supported; supported: LlamaForCausalLM"},
  };
  for (const auto& [name, why] : kinds) {
    EXPECT_THAT(FamilyRefusal(Family(name, "x")),
                AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(name), HasSubstr(why),
                      HasSubstr("Gemma2ForCausalLM")));
  }
  Json by_type = Family("x", "qwen3_next");
  by_type.erase("architectures");
  EXPECT_THAT(FamilyRefusal(by_type), HasSubstr("not all attention"));
}

}  // namespace
}  // namespace graft
