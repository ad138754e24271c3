// /v1/embeddings over HTTP: the engine is one that adds up tokens, all else is real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/server_testing.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

class EmbeddingsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.start_status.ok()); }

  RawResponse Ask(const std::string& fields) {
    return client_.Post("/v1/embeddings", R"({"model":"austen",)" + fields + "}");
  }

  TestServer server_{ServerOptions{.pooling = Pooling::kMean}};
  RawClient client_{server_.port()};
};

TEST_F(EmbeddingsTest, EveryInputHasItsVectorInItsPlace) {
  const Json answer = Ask(R"("input":[[5,7],[11],[2,2,2]],"normalize":false)").json();
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["model"], "austen");
  ASSERT_EQ(answer["data"].size(), 3u) << answer;
  EXPECT_EQ(answer["data"][0]["embedding"], Json::parse("[12,2]"));
  EXPECT_EQ(answer["data"][1]["embedding"], Json::parse("[11,1]"));
  EXPECT_EQ(answer["data"][2]["embedding"], Json::parse("[6,3]"));
  EXPECT_EQ(answer["data"][2]["index"], 2);
  EXPECT_EQ(answer["usage"], Json::parse(R"({"prompt_tokens":6,"total_tokens":6})"));
  for (const Request& request : server_.generator.submitted()) {
    EXPECT_EQ(request.pooling, Pooling::kMean);
    EXPECT_EQ(request.sampling.tokens_max, 0);
    EXPECT_FALSE(request.adapters.empty());
  }
}

TEST_F(EmbeddingsTest, FormatsSayTheSame) {
  EXPECT_EQ(Ask(R"("input":[4])").json()["data"][0]["embedding"].size(), 2u);
  const Json answer =
      Ask(R"("input":[[3,0,0]],"normalize":false,"encoding_format":"base64")").json();
  EXPECT_EQ(answer["data"][0]["embedding"], "AABAQAAAQEA=");  // 3.0f twice
}

TEST_F(EmbeddingsTest, MistakesAreAnswered) {
  EXPECT_EQ(Ask(R"("input":[])").status, 400);
  EXPECT_EQ(Ask(R"("input":[[1],[99999999]])").json()["error"]["param"], "input[1]");
  EXPECT_EQ(client_.Post("/v1/embeddings", R"({"model":"nobody","input":"x"})").status, 404);
  server_.generator.set_submit_status(UnimplementedError("this adapter is not served here"));
  const RawResponse refused = Ask(R"("input":"x")");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("not served here"));
}

TEST_F(EmbeddingsTest, ARunnerThatKnowsNoneIsAnError) {
  server_.generator.set_knows_pooling(false);
  const RawResponse response = Ask(R"("input":"x")");
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, HasSubstr("version without embeddings"));
}

}  // namespace
}  // namespace graft
