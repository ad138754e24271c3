#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "request/generator.h"

namespace graft {
namespace {

TEST(SamplingParamsTest, NamesTheFieldOutOfRange) {
  EXPECT_TRUE(ValidateSamplingParams({}, 10).ok());
  const auto message = [](auto&& change) {
    SamplingParams params;
    change(params);
    return ValidateSamplingParams(params, 10).message();
  };
  EXPECT_NE(message([](auto& p) { p.temperature = -1; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.temperature = NAN; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.top_p = 0; }).find("top_p"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.top_k = -2; }).find("top_k"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.min_p = 2; }).find("min_p"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.repetition_penalty = 0; }).find("repetition"),
            std::string::npos);
  EXPECT_NE(message([](auto& p) { p.frequency_penalty = 3; }).find("frequency"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.presence_penalty = -3; }).find("presence"), std::string::npos);
  EXPECT_NE(message([](auto& p) {
              p.logit_bias = {{10, 1}};
            }).find("logit_bias"),
            std::string::npos);
  EXPECT_NE(message([](auto& p) {
              p.logit_bias = {{1, 101}};
            }).find("logit_bias"),
            std::string::npos);
  EXPECT_NE(message([](auto& p) { p.num_logprobs = 21; }).find("logprobs"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.tokens_max = -1; }).find("max_tokens"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.tokens_min = 17; }).find("min_tokens"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.stop_token_ids = {-1}; }).find("stop_token"),
            std::string::npos);
}

TEST(TokenStreamTest, CarriesEventsAcrossThreads) {
  TokenStream stream;
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) {
      TokenEvent event;
      event.token = i;
      stream.Push(std::move(event));
    }
  });
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(stream.Pop().token, i);
  writer.join();
  EXPECT_FALSE(stream.TryPop().has_value());
}

TEST(TokenStreamTest, CallsBackWhenEventsWaitAndNeverAfterRemoval) {
  TokenStream stream;
  int calls = 0;
  stream.Push({});
  stream.SetReadyCallback([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  stream.Push({});
  EXPECT_EQ(calls, 1);  // not empty before: the reader is on its way
  while (stream.TryPop()) {
  }
  stream.Push({});
  EXPECT_EQ(calls, 2);
  stream.SetReadyCallback({});
  while (stream.TryPop()) {
  }
  stream.Push({});
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace graft
