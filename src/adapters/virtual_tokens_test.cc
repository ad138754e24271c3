#include "adapters/virtual_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "adapters/adapter_test_util.h"

namespace graft {
namespace virtual_tokens_test {

using ::testing::AllOf;
using testing::FileOf;
using ::testing::HasSubstr;
using testing::OddModel;
using testing::PromptJson;
using testing::PromptTestTensor;
using testing::TestTensor;

constexpr int64_t kKvColumns = 3 * 2 * 10;  // of OddModel

PromptConfig Prompt(const std::string& type, const std::string& extra = "") {
  return *ParsePromptConfig(PromptJson(type, extra), OddModel());
}

Result<VirtualTokens> Load(const std::vector<TestTensor>& tensors, const std::string& type,
                           const ServedTypes& types = {}) {
  return VirtualTokens::Load(FileOf(tensors), Prompt(type), OddModel(), types);
}

std::string Refusal(const std::vector<TestTensor>& tensors, const std::string& type,
                    const ServedTypes& types = {}) {
  const Result<VirtualTokens> tokens = Load(tensors, type, types);
  return tokens.ok() ? "accepted" : tokens.status().ToString();
}

template <typename T>
T Element(const VirtualTokens& tokens, int64_t token, int64_t i) {
  return reinterpret_cast<const T*>(tokens.buffer().as<char>() + token * tokens.row_bytes())[i];
}

TEST(VirtualTokensTest, RowsAreTheFilesRows) {
  const TestTensor tensor = PromptTestTensor(3, 21);
  const Result<VirtualTokens> tokens = Load({tensor}, "PROMPT_TUNING");
  ASSERT_TRUE(tokens.ok()) << tokens.status().ToString();
  EXPECT_EQ(tokens->num_tokens(), 3);
  EXPECT_EQ(tokens->row_bytes(), 128);
  EXPECT_EQ(tokens->buffer().bytes(), 3 * 128);
  const auto* values = reinterpret_cast<const float*>(tensor.data.data());
  for (int64_t i = 0; i < 3 * 21; ++i) {
    EXPECT_EQ(Element<float>(*tokens, i / 21, i % 21), values[i]);
  }
}

// Embeddings go with the weights, keys and values with the pages.
TEST(VirtualTokensTest, EachKindHasItsDType) {
  const ServedTypes types = TypesOf(DType::kBF16);
  const TestTensor embeddings = PromptTestTensor(3, 21);
  const Result<VirtualTokens> soft = Load({embeddings}, "P_TUNING", types);
  ASSERT_TRUE(soft.ok());
  EXPECT_EQ(soft->row_bytes(), 64);
  const float first = *reinterpret_cast<const float*>(embeddings.data.data());
  EXPECT_EQ(Element<Bfloat16>(*soft, 0, 0).bits, FromFloat<Bfloat16>(first).bits);
  const TestTensor keys_values = PromptTestTensor(3, kKvColumns, "F16");
  const Result<VirtualTokens> prefix = Load({keys_values}, "PREFIX_TUNING", types);
  ASSERT_TRUE(prefix.ok()) << prefix.status().ToString();
  EXPECT_EQ(prefix->kind(), VirtualTokenKind::kKeysValues);
  EXPECT_EQ(prefix->row_bytes(), 128);
  const auto* values = reinterpret_cast<const Float16*>(keys_values.data.data());
  for (int64_t i = 0; i < 3 * kKvColumns; ++i) {
    EXPECT_EQ(Element<Float16>(*prefix, i / kKvColumns, i % kKvColumns).bits, values[i].bits);
  }
}

TEST(VirtualTokensTest, RefusesOtherShapes) {
  EXPECT_THAT(Refusal({PromptTestTensor(3, 64)}, "PROMPT_TUNING"),
              AllOf(HasSubstr("[3, 64]"), HasSubstr("take [3, 21]"), HasSubstr("another base"),
                    HasSubstr("'test/base'"), HasSubstr("'test/odd'")));
  EXPECT_THAT(Refusal({PromptTestTensor(4, 21)}, "PROMPT_TUNING"),
              AllOf(HasSubstr("[4, 21]"), HasSubstr("num_virtual_tokens")));
  EXPECT_THAT(Refusal({PromptTestTensor(3, 21)}, "PREFIX_TUNING"), HasSubstr("take [3, 60]"));
  EXPECT_EQ(Refusal({PromptTestTensor(3, kKvColumns)}, "PREFIX_TUNING"), "accepted");
  TestTensor flat = PromptTestTensor(3, 21);
  flat.shape = {63};
  EXPECT_THAT(Refusal({flat}, "PROMPT_TUNING"), HasSubstr("[63]"));
}

TEST(VirtualTokensTest, RefusesOtherTensors) {
  EXPECT_THAT(Refusal({}, "PROMPT_TUNING"), HasSubstr("prompt_embeddings"));
  TestTensor other = PromptTestTensor(3, 21);
  other.name = "base_model.model.lm_head.weight";
  EXPECT_THAT(Refusal({PromptTestTensor(3, 21), other}, "PROMPT_TUNING"),
              AllOf(HasSubstr("lm_head"), HasSubstr("no part of a prompt")));
}

TEST(VirtualTokensTest, RefusesValuesThatAreNotFinite) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    TestTensor tensor = PromptTestTensor(3, 21);
    std::memcpy(tensor.data.data() + 4 * (21 + 5), &value, 4);
    EXPECT_THAT(Refusal({tensor}, "PROMPT_TUNING"),
                AllOf(HasSubstr(std::isnan(value) ? "NaN" : "Inf"), HasSubstr("at [1, 5]")));
  }
  TestTensor large = PromptTestTensor(3, kKvColumns);
  const float value = 1e6f;
  std::memcpy(large.data.data(), &value, 4);
  EXPECT_THAT(Refusal({large}, "PREFIX_TUNING", TypesOf(DType::kBF16)),
              AllOf(HasSubstr("too large for"), HasSubstr("[0, 0]")));
  EXPECT_EQ(Refusal({large}, "PREFIX_TUNING"), "accepted");
}

}  // namespace virtual_tokens_test
}  // namespace graft
