// What the loader accepts, every kernel must take, on each device. For each bound of each field of
// a config, a model at that bound is prefilled and decoded.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "base/json.h"
#include "model/config.h"
#include "model/test_session.h"
#include "model/weights.h"

namespace graft {
namespace {

using testing::Chunk;
using testing::TestDevice;
using testing::TestSession;

struct Bound {
  const char* name;
  const char* changes;
  // The next value beyond the bound, which must be refused; null: there is none to try.
  const char* too_far = nullptr;
};

// The loader takes max_position_embeddings and windows of up to 2^24. Kernels see no more of them
// than the context of the server.
constexpr Bound kBounds[] = {
    {"small", R"({})"},
    {"vocab_least", R"({"vocab_size": 1})", R"({"vocab_size": 0})"},
    {"vocab_most", R"({"vocab_size": 1048576})", R"({"vocab_size": 1048577})"},
    {"hidden_least", R"({"hidden_size": 1})", R"({"hidden_size": 0})"},
    {"hidden_most", R"({"hidden_size": 65536})", R"({"hidden_size": 65537})"},
    {"mlp_least", R"({"intermediate_size": 1})", R"({"intermediate_size": 0})"},
    {"mlp_most", R"({"intermediate_size": 524288})", R"({"intermediate_size": 524289})"},
    {"layers_least", R"({"num_hidden_layers": 1})", R"({"num_hidden_layers": 0})"},
    {"layers_most", R"({"num_hidden_layers": 1024})", R"({"num_hidden_layers": 1025})"},
    {"heads_least", R"({"num_attention_heads": 1})", R"({"num_attention_heads": 0})"},
    {"heads_most", R"({"num_attention_heads": 1024})", R"({"num_attention_heads": 1025})"},
    {"kv_heads_most", R"({"num_attention_heads": 1024, "num_key_value_heads": 1024})",
     R"({"num_attention_heads": 1024, "num_key_value_heads": 1025})"},
    {"head_dim_least", R"({"head_dim": 2})", R"({"head_dim": 1})"},
    {"head_dim_most", R"({"head_dim": 256})", R"({"head_dim": 258})"},
    {"wide_group_of_wide_heads", R"({"num_attention_heads": 64, "head_dim": 256})"},
    {"window_least", R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
                         "sliding_window": 1})",
     R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 0})"},
    {"window_most", R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
                        "sliding_window": 16777216})",
     R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
         "sliding_window": 16777217})"},
    {"epsilon_least", R"({"rms_norm_eps": 1e-12})", R"({"rms_norm_eps": 1e-13})"},
    {"epsilon_most", R"({"rms_norm_eps": 0.1})", R"({"rms_norm_eps": 0.2})"},
    {"theta_least", R"({"rope_theta": 1.0})", R"({"rope_theta": 0.5})"},
    {"theta_most", R"({"rope_theta": 1e15})", R"({"rope_theta": 1e16})"},
    {"factor_most", R"({"rope_scaling": {"rope_type": "linear", "factor": 1e6}})",
     R"({"rope_scaling": {"rope_type": "linear", "factor": 1e7}})"},
    {"yarn_least", R"({"rope_scaling": {"rope_type": "yarn", "factor": 1.0,
                       "original_max_position_embeddings": 2, "attention_factor": 1e-6}})",
     R"({"rope_scaling": {"rope_type": "yarn", "factor": 1.0,
         "original_max_position_embeddings": 1}})"},
    {"yarn_most", R"({"rope_scaling": {"rope_type": "yarn", "factor": 1e6, "beta_fast": 1e6,
                      "original_max_position_embeddings": 16777216, "truncate": false}})",
     R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
         "original_max_position_embeddings": 16777217}})"},
    {"no_rope_layers", R"({"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3",
                           "no_rope_layers": [0, 1]})",
     R"({"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3",
         "no_rope_layers": [0]})"},
    {"granite_least", R"({"architectures": ["GraniteForCausalLM"], "model_type": "granite",
                          "embedding_multiplier": 1e-6, "attention_multiplier": 1e-6,
                          "residual_multiplier": 1e-6, "logits_scaling": 1e-6})",
     R"({"architectures": ["GraniteForCausalLM"], "model_type": "granite",
         "residual_multiplier": 1e-7})"},
    {"granite_most", R"({"architectures": ["GraniteForCausalLM"], "model_type": "granite",
                         "embedding_multiplier": 1e6, "attention_multiplier": 1e6,
                         "residual_multiplier": 1e6, "logits_scaling": 1e6})",
     R"({"architectures": ["GraniteForCausalLM"], "model_type": "granite",
         "embedding_multiplier": 1e7})"},
    {"gemma_least", R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
                        "attn_logit_softcapping": 1e-3, "final_logit_softcapping": 1e-3,
                        "query_pre_attn_scalar": 1e-3})",
     R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
         "query_pre_attn_scalar": 1e-4})"},
    {"gemma_most", R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
                       "head_dim": 256, "attn_logit_softcapping": 1e6,
                       "final_logit_softcapping": 1e6, "query_pre_attn_scalar": 1e6})",
     R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
         "attn_logit_softcapping": 1e7})"},
    {"rotary_least", R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
                         "head_dim": 256, "partial_rotary_factor": 0.03125})",
     R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
         "head_dim": 256, "partial_rotary_factor": 0.015625})"},
    {"norms_across_wide_heads", R"({"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2",
                                    "num_attention_heads": 64, "head_dim": 256})"},
    {"interleaved_of_wide_heads", R"({"architectures": ["GlmForCausalLM"], "model_type": "glm",
                                      "head_dim": 256, "partial_rotary_factor": 1.0})"},
    {"interleaved_of_narrow_heads", R"({"architectures": ["GlmForCausalLM"], "model_type": "glm",
                                        "head_dim": 2, "partial_rotary_factor": 1.0})"},
    {"interleaved_least", R"({"architectures": ["Glm4ForCausalLM"], "model_type": "glm4",
                              "head_dim": 256, "partial_rotary_factor": 0.03125})",
     R"({"architectures": ["Glm4ForCausalLM"], "model_type": "glm4",
         "head_dim": 256, "partial_rotary_factor": 0.015625})"},
    {"exaone_interval_least", R"({"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4",
                                  "sliding_window_pattern": 1})",
     R"({"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4",
         "sliding_window_pattern": 0})"},
    {"exaone_interval_most", R"({"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4",
                                 "sliding_window_pattern": 1048576})",
     R"({"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4",
         "sliding_window_pattern": 1048577})"},
    {"qk_norm_of_wide_heads", R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
                                  "head_dim": 256})"},
};

Json ConfigWith(const char* changes) {
  Json json = Json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "vocab_size": 11, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2,
      "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
      "max_position_embeddings": 64})");
  json.update(Json::parse(changes));
  return json;
}

struct Place {
  const char* name;
  DeviceKind device;
  DType dtype;
};
constexpr Place kPlaces[] = {{"cpu_fp32", DeviceKind::kCpu, DType::kF32},
                             {"cpu_bf16", DeviceKind::kCpu, DType::kBF16},
                             {"cuda_fp32", DeviceKind::kCuda, DType::kF32},
                             {"cuda_bf16", DeviceKind::kCuda, DType::kBF16},
                             {"cuda_fp16", DeviceKind::kCuda, DType::kF16}};

class ConfigBoundsTest : public ::testing::TestWithParam<std::tuple<Place, Bound>> {};

TEST_P(ConfigBoundsTest, EveryKernelTakesWhatTheLoaderDoes) {
  const auto& [place, bound] = GetParam();
  TestDevice device(place.device);
  if (!device.exists()) GTEST_SKIP() << "this machine shows no GPU";
  const Result<ModelConfig> config = ParseModelConfig(ConfigWith(bound.changes));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const ModelWeights weights =
      RandomWeights(*config, TypesOf(place.dtype, device.stream().device), 3, device.stream());
  TestSession session(
      *config, weights, device.stream(), 5, 16,
      {.step_tokens_max = 16, .logits_rows_max = 2, .sequences_max = 4, .context_tokens_max = 32});
  const auto last = [&](int32_t i) { return i % config->vocab_size; };
  // First a prompt, then a decode row of it beside another sequence's prompt.
  auto logits = session.StepForLast({{0, {last(1), last(2), last(3), last(4), last(5), last(6)}}});
  logits = session.StepForLast({{0, {last(7)}}, {1, {last(8), last(9), last(10)}}});
  ASSERT_EQ(logits.size(), 2u);
  for (const std::vector<float>& row : logits) {
    ASSERT_EQ(row.size(), static_cast<size_t>(config->vocab_size));
    for (const float logit : row) ASSERT_TRUE(std::isfinite(logit));
  }
}

INSTANTIATE_TEST_SUITE_P(Fields, ConfigBoundsTest,
                         ::testing::Combine(::testing::ValuesIn(kPlaces),
                                            ::testing::ValuesIn(kBounds)),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param).name) + "_" +
                                  std::get<0>(info.param).name;
                         });

TEST(ConfigBoundsTest, TheNextNumberIsRefused) {
  for (const Bound& bound : kBounds) {
    if (bound.too_far == nullptr) continue;
    EXPECT_FALSE(ParseModelConfig(ConfigWith(bound.too_far)).ok()) << bound.too_far;
  }
}

}  // namespace
}  // namespace graft
