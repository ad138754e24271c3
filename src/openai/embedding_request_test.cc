#include "openai/embedding_request.h"

#include <gtest/gtest.h>

#include "openai/embeddings_writer.h"

namespace graft {
namespace {

ApiResult<EmbeddingRequest> ParseEmbedding(const std::string& body) {
  return ParseEmbeddingRequest(ParseJson(body).value(), RequestLimits{});
}

TEST(EmbeddingRequestTest, EveryFormOfInput) {
  auto text = ParseEmbedding(R"({"model":"m","input":"a"})");
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(std::get<std::string>(text->inputs.at(0)), "a");
  EXPECT_FALSE(text->format.is_base64);
  EXPECT_TRUE(text->format.is_normalized);
  auto lists = ParseEmbedding(R"({"model":"m","input":[[1,2],[3]],"encoding_format":"base64",
      "normalize":false,"user":"u","truncate_prompt_tokens":-1})");
  ASSERT_TRUE(lists.ok()) << lists.error().message;
  ASSERT_EQ(lists->inputs.size(), 2u);
  EXPECT_EQ(std::get<std::vector<int32_t>>(lists->inputs[0]), (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(lists->format.is_base64);
  EXPECT_FALSE(lists->format.is_normalized);
  EXPECT_EQ(ParseEmbedding(R"({"model":"m","input":["a","b","c"]})")->inputs.size(), 3u);
  EXPECT_EQ(ParseEmbedding(R"({"model":"m","input":[7,8]})")->inputs.size(), 1u);
}

TEST(EmbeddingRequestTest, MistakesAreNamed) {
  const auto param = [](const std::string& fields) {
    const auto request = ParseEmbedding(R"({"model":"m",)" + fields + "}");
    return request.ok() ? "" : request.error().param;
  };
  EXPECT_EQ(param(R"("user":"u")"), "input");
  EXPECT_EQ(param(R"("input":[])"), "input");
  EXPECT_EQ(param(R"("input":["a",3])"), "input[1]");
  EXPECT_EQ(param(R"("input":"a","dimensions":8)"), "dimensions");
  EXPECT_EQ(param(R"("input":"a","encoding_format":"int8")"), "encoding_format");
  EXPECT_EQ(param(R"("input":"a","truncate_prompt_tokens":0)"), "truncate_prompt_tokens");
  EXPECT_EQ(param(R"("input":"a","stream":true)"), "stream");
  EXPECT_FALSE(ParseEmbedding(R"({"input":"a"})").ok());
}

TEST(EmbeddingsWriterTest, Base64IsRfc4648s) {
  EXPECT_EQ(Base64(""), "");
  EXPECT_EQ(Base64("f"), "Zg==");
  EXPECT_EQ(Base64("fo"), "Zm8=");
  EXPECT_EQ(Base64("foo"), "Zm9v");
  EXPECT_EQ(Base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64("\xff\xfe"), "//4=");
}

TEST(EmbeddingsWriterTest, NormalizedVectorsHaveTheLengthOne) {
  std::vector<float> vector = {3.0f, 0.0f, -4.0f};
  Normalize(vector);
  EXPECT_EQ(vector, (std::vector<float>{0.6f, 0.0f, -0.8f}));
  std::vector<float> zeros(3);
  Normalize(zeros);
  EXPECT_EQ(zeros, std::vector<float>(3));
}

}  // namespace
}  // namespace graft
