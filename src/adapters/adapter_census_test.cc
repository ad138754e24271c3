#include "adapters/adapter_census.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/family.h"
#include "model/wrapper.h"

namespace graft {
namespace adapter_census_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Json kLine = {{"n", 7},
                    {"where", "root"},
                    {"base_model_name_or_path", "someone/model"},
                    {"peft_type", "LORA"},
                    {"task_type", "CAUSAL_LM"},
                    {"r", 8},
                    {"lora_alpha", 16},
                    {"target_modules", {"q_proj", "v_proj"}},
                    {"rank_pattern", false},
                    {"trainable_token_indices", false},
                    {"unknown_to_graft", Json::array()},
                    {"base_class", "Qwen2ForCausalLM"},
                    {"base_quant", nullptr}};

CensusVerdict Try(const Json& changes) {
  Json line = kLine;
  line.update(changes);
  return TryCensusLine(line.dump());
}

std::string Refusal(const Json& changes) {
  const CensusVerdict verdict = Try(changes);
  return verdict.status.ok() ? "served" : verdict.status.message();
}

TEST(AdapterCensusTest, ServesWhatALoaderWould) {
  const CensusVerdict verdict = Try(Json::object());
  EXPECT_TRUE(verdict.status.ok()) << verdict.status.message();
  EXPECT_EQ(verdict.name, "someone/model");
  EXPECT_EQ(verdict.base_class, "Qwen2ForCausalLM");
  EXPECT_EQ(verdict.base_quant, "");
  EXPECT_EQ(Refusal({{"target_modules", {"model.layers.255.mlp.up_proj"}}}), "served");
  EXPECT_EQ(Refusal({{"base_class", "Glm4ForCausalLM"}, {"target_modules", {"gate_up_proj"}}}),
            "served");
  EXPECT_EQ(Refusal({{"base_class", "LlamaForCausalLM?"}}), "served");
  EXPECT_EQ(Refusal({{"base_class", "MistralForCausalLM (as published)"}}), "served");
  EXPECT_EQ(Try({{"base_quant", "bnb-4bit"}}).base_quant, "bnb-4bit");
  EXPECT_EQ(Refusal({{"base_quant", "bnb-4bit"}}), "served") << "on its original";
}

// Known by its name alone each class that is served takes adapters.
TEST(AdapterCensusTest, AllClassesAreKnownByTheirNames) {
  std::vector<std::string_view> names;
  for (const ModelFamily* const family : ModelFamilies()) names.push_back(family->name);
  for (const ModelWrapper& wrapper : ModelWrappers()) names.push_back(wrapper.name);
  EXPECT_GT(names.size(), 25u);
  for (const std::string_view name : names) {
    EXPECT_EQ(Refusal({{"base_class", name}, {"target_modules", "all-linear"}}), "served") << name;
    EXPECT_THAT(Refusal({{"base_class", name}, {"target_modules", {"no_such"}}}), Not("served"));
  }
}

TEST(AdapterCensusTest, RefusalsAreALoaders) {
  EXPECT_THAT(Refusal({{"base_class", "ChatGLMModel"}}),
              AllOf(HasSubstr("ChatGLMModel"), HasSubstr("GlmForCausalLM")));
  EXPECT_THAT(Refusal({{"base_class", nullptr}}), HasSubstr("give base_class"));
  EXPECT_THAT(Refusal({{"base_class", "?"}}), HasSubstr("give base_class"));
  EXPECT_THAT(Refusal({{"use_dora", true}}), HasSubstr("use_dora"));
  EXPECT_THAT(Refusal({{"modules_to_save", {"lm_head"}}}), HasSubstr("modules_to_save"));
  EXPECT_THAT(Refusal({{"task_type", "SEQ_CLS"}}), HasSubstr("task_type"));
  EXPECT_THAT(Refusal({{"rank_pattern", true}}), HasSubstr("rank_pattern"));
  EXPECT_THAT(Refusal({{"r", 1000}}), HasSubstr("\"r\""));
  EXPECT_THAT(Refusal({{"target_modules", {"c_attn"}}}), HasSubstr("c_attn"));
  EXPECT_THAT(Refusal({{"unknown_to_graft", {"model_max_length"}}}), HasSubstr("model_max_length"));
  EXPECT_THAT(Refusal({{"a_key_of_tomorrow", 1}}), HasSubstr("a_key_of_tomorrow"));
  EXPECT_THAT(Refusal({{"peft_type", "IA3"}}), HasSubstr("IA3"));
}

// A config of the base says more than its class.
TEST(AdapterCensusTest, BasesByTheirConfig) {
  const Json base = {{"architectures", {"LlamaForCausalLM"}},
                     {"vocab_size", 100},
                     {"hidden_size", 64},
                     {"intermediate_size", 96},
                     {"num_hidden_layers", 4},
                     {"num_attention_heads", 4},
                     {"max_position_embeddings", 128}};
  const Json fourth = {{"base_config", base}, {"target_modules", {"layers.4.mlp.up_proj"}}};
  EXPECT_THAT(Refusal(fourth), Not("served"));
  EXPECT_EQ(Refusal({{"base_config", base}, {"target_modules", {"layers.3.mlp.up_proj"}}}),
            "served");
  EXPECT_EQ(Refusal({{"base_config", base}, {"base_class", nullptr}}), "served");
  EXPECT_THAT(Refusal({{"base_config", "llama"}}), HasSubstr("JSON object"));
}

TEST(AdapterCensusTest, LinesThatAreNone) {
  for (const char* line : {"", "{", "[]", "7", "\"text\"", "{\"r\": 8}"}) {
    EXPECT_FALSE(TryCensusLine(line).status.ok()) << line;
  }
}

}  // namespace adapter_census_test
}  // namespace graft
