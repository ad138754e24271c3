#include "adapters/prompt_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/adapter_test_util.h"

namespace graft {
namespace prompt_config_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::OddModel;
using testing::PeftJson;
using testing::PromptJson;

std::string Refusal(const std::string& text) {
  const Result<PromptConfig> config = ParsePromptConfig(text, OddModel());
  return config.ok() ? "accepted" : config.status().ToString();
}

TEST(PromptConfigTest, TellsMethodsApart) {
  for (const char* type : {"PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING"}) {
    EXPECT_TRUE(IsPromptConfig(PromptJson(type))) << type;
    const Result<PromptConfig> config = ParsePromptConfig(PromptJson(type), OddModel());
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    EXPECT_EQ(config->kind == VirtualTokenKind::kKeysValues, type == std::string("PREFIX_TUNING"));
    EXPECT_EQ(config->num_tokens, 3);
    EXPECT_EQ(config->base_model, "test/base");
  }
  for (const std::string& other :
       {PeftJson(), PromptJson("IA3"), PromptJson("prompt_tuning"), PromptJson(""),
        PromptJson("PROMPT_TUNING", R"("peft_type": null)"), std::string("[]"), std::string("{"),
        std::string()}) {
    EXPECT_FALSE(IsPromptConfig(other)) << other;
    EXPECT_NE(Refusal(other), "accepted") << other;
  }
}

// As PEFT 0.21 writes them.
TEST(PromptConfigTest, TakesWhatPeftWrites) {
  EXPECT_EQ(Refusal(PromptJson("PROMPT_TUNING", R"("auto_mapping": null, "inference_mode": true,
      "modules_to_save": null, "num_attention_heads": 3, "num_layers": 3,
      "num_transformer_submodules": 1, "peft_version": "0.21.2", "prompt_tuning_init": "TEXT",
      "prompt_tuning_init_text": "Answer:", "revision": null, "token_dim": 21,
      "tokenizer_kwargs": {"use_fast": true}, "tokenizer_name_or_path": "a/b")")),
            "accepted");
  EXPECT_EQ(Refusal(PromptJson("P_TUNING", R"("encoder_dropout": 0.1, "encoder_hidden_size": 32,
      "encoder_num_layers": 2, "encoder_reparameterization_type": "MLP", "token_dim": 21)")),
            "accepted");
  EXPECT_EQ(Refusal(PromptJson("PREFIX_TUNING", R"("encoder_hidden_size": 32, "init_weights": true,
      "prefix_projection": true, "num_attention_heads": 1, "token_dim": 10, "num_layers": 3)")),
            "accepted");
}

TEST(PromptConfigTest, RefusesWhatItWouldNotApply) {
  const auto refusal = [](const std::string& extra) {
    return Refusal(PromptJson("PROMPT_TUNING", extra));
  };
  EXPECT_THAT(refusal(R"("modules_to_save": ["lm_head"])"),
              AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("modules_to_save")));
  EXPECT_THAT(refusal(R"("task_type": "SEQ_CLS")"), HasSubstr("\"SEQ_CLS\" is not served"));
  EXPECT_THAT(refusal(R"("num_transformer_submodules": 2)"), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(refusal(R"("a_new_key": 5)"), HasSubstr("\"a_new_key\" = 5"));
  EXPECT_EQ(refusal(R"("a_new_key": null)"), "accepted");
  for (const char* count : {"0", "-1", "1.5", "\"3\"", "null", "16385", "9223372036854775808"}) {
    EXPECT_THAT(refusal("\"num_virtual_tokens\": " + std::string(count)),
                AllOf(HasSubstr("num_virtual_tokens"), HasSubstr("from 1 to 16384")))
        << count;
  }
}

TEST(PromptConfigTest, RefusesAnotherBasesSizes) {
  EXPECT_THAT(Refusal(PromptJson("PROMPT_TUNING", R"("token_dim": 64)")),
              AllOf(HasSubstr("\"token_dim\" = 64"), HasSubstr("this model has 21"),
                    HasSubstr("another base")));
  EXPECT_THAT(Refusal(PromptJson("PROMPT_TUNING", R"("num_layers": 32)")),
              AllOf(HasSubstr("num_layers"), HasSubstr("3 layers")));
  EXPECT_THAT(Refusal(PromptJson("PREFIX_TUNING", R"("token_dim": 21)")),
              AllOf(HasSubstr("token_dim"), HasSubstr("this model has 10")));
  EXPECT_THAT(Refusal(PromptJson("PREFIX_TUNING", R"("num_attention_heads": 3)")),
              AllOf(HasSubstr("num_attention_heads"), HasSubstr("1 heads of keys")));
}

}  // namespace prompt_config_test
}  // namespace graft
