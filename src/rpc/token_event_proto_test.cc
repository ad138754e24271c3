#include "rpc/request_proto.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace graft {
namespace {

// Sends an event by way of its bytes.
TokenEvent SendEvent(const TokenEvent& event) {
  rpc::TokenEvent proto;
  EXPECT_TRUE(proto.ParseFromString(ToProto(event).SerializeAsString()));
  return FromProto(proto);
}

void ExpectSame(const std::vector<TokenLogprob>& got, const std::vector<TokenLogprob>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].token, want[i].token);
    if (std::isnan(want[i].logprob)) {
      EXPECT_TRUE(std::isnan(got[i].logprob));
    } else {
      EXPECT_EQ(got[i].logprob, want[i].logprob);
    }
  }
}

TEST(TokenEventProtoTest, CarriesEveryField) {
  TokenEvent event;
  event.token = 31999;
  event.logprob = -0.1f;
  event.top_logprobs = {{5, -0.5f}, {0, -std::numeric_limits<float>::infinity()}};
  event.prompt_logprobs = {{1, std::numeric_limits<float>::quiet_NaN()}, {2, -1e-30f}};
  event.prompt_top_logprobs = {{}, {{7, -2.0f}, {8, -3.0f}}};
  event.embedding = {0.5f, -1.25f};
  event.finish_reason = FinishReason::kError;
  event.status = UnavailableError("draining");
  event.usage = {.prompt_tokens = 1, .cached_tokens = 2, .output_tokens = 3};
  const TokenEvent sent = SendEvent(event);
  EXPECT_EQ(sent.token, 31999);
  EXPECT_EQ(sent.logprob, -0.1f);
  ExpectSame(sent.top_logprobs, event.top_logprobs);
  ExpectSame(sent.prompt_logprobs, event.prompt_logprobs);
  ASSERT_EQ(sent.prompt_top_logprobs.size(), 2u);
  ExpectSame(sent.prompt_top_logprobs[1], event.prompt_top_logprobs[1]);
  EXPECT_EQ(sent.embedding, event.embedding);
  EXPECT_EQ(sent.finish_reason, FinishReason::kError);
  EXPECT_EQ(sent.status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(sent.status.message(), "draining");
  EXPECT_EQ(sent.usage.prompt_tokens, 1);
  EXPECT_EQ(sent.usage.cached_tokens, 2);
  EXPECT_EQ(sent.usage.output_tokens, 3);
}

TEST(TokenEventProtoTest, CarriesAnEventWithoutAToken) {
  TokenEvent event;
  event.finish_reason = FinishReason::kCancelled;
  const TokenEvent sent = SendEvent(event);
  EXPECT_EQ(sent.token, -1);
  EXPECT_EQ(sent.finish_reason, FinishReason::kCancelled);
  EXPECT_TRUE(sent.status.ok());
}

TEST(TokenEventProtoTest, UnknownNumbersBecomeErrors) {
  rpc::TokenEvent proto;
  proto.set_finish_reason(200);
  EXPECT_EQ(FromProto(proto).finish_reason, FinishReason::kError);
  EXPECT_NE(FromProto(proto).status.message().find("finish reason 200"), std::string::npos);
  rpc::Status status;
  status.set_code(77);
  status.set_message("new");
  EXPECT_EQ(FromProto(status).code(), StatusCode::kInternal);
  EXPECT_NE(FromProto(status).message().find("status 77"), std::string::npos);
}

}  // namespace
}  // namespace graft
