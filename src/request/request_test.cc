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
  EXPECT_EQ(message([](auto& p) { p.top_p = 0; }), "top_p must be above 0 and at most 1, got 0");
  EXPECT_EQ(message([](auto& p) { p.top_p = 1.0000001f; }),
            "top_p must be above 0 and at most 1, got 1.0000001");
  EXPECT_EQ(message([](auto& p) {
              p.logit_bias = {{5, 1}, {3, 1}, {5, 2}};
            }),
            "logit_bias holds token id 5 twice");
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
  EXPECT_NE(message([](auto& p) { p.allowed_token_ids = {10}; }).find("allowed_token_ids"),
            std::string::npos);
  EXPECT_NE(message([](auto& p) {
              p.bad_words = {{1}, {2, 10}};
            }).find("bad_words"),
            std::string::npos);
  EXPECT_NE(message([](auto& p) { p.bad_words = {{}}; }).find("bad_words"), std::string::npos);
}

TEST(RequestTest, RefusesByNameWhatNobodyServes) {
  EXPECT_TRUE(RefuseUnserved({}).ok());
  const auto refusal = [](auto&& change) {
    Request request;
    request.UseAdapter("aa");
    EXPECT_TRUE(RefuseUnserved(request).ok());
    change(request);
    const Status status = RefuseUnserved(request);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    return status.message().substr(0, status.message().find_first_of(": "));
  };
  EXPECT_EQ(refusal([](auto& r) { r.pooling = static_cast<Pooling>(7); }), "pooling");
}

TEST(RequestTest, SumsOfAdaptersHaveBounds) {
  Request request;
  EXPECT_FALSE(request.adds_adapters());
  EXPECT_EQ(request.adapter_key(), "");
  request.UseAdapter("aa");
  EXPECT_FALSE(request.adds_adapters());
  EXPECT_EQ(request.adapter_key(), "aa");
  request.adapters[0].weight = 0.5f;
  EXPECT_TRUE(request.adds_adapters());
  const std::string half = request.adapter_key();
  request.adapters[0].weight = -100.0f;
  EXPECT_TRUE(RefuseUnserved(request).ok());
  EXPECT_NE(request.adapter_key(), half);
  for (const float wrong : {0.0f, 101.0f, -101.0f, NAN, INFINITY}) {
    request.adapters[0].weight = wrong;
    const Status status = RefuseUnserved(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    EXPECT_EQ(status.message().find("adapters: a weight must be"), 0u) << status.message();
  }
  request.adapters.assign(8, {.hash = "aa"});
  EXPECT_TRUE(request.adds_adapters());
  EXPECT_TRUE(RefuseUnserved(request).ok());
  request.adapters.push_back({.hash = "bb"});
  EXPECT_NE(RefuseUnserved(request).message().find("at most 8, got 9"), std::string::npos);
}

TEST(RequestTest, ATenantsWeightIsAboveZero) {
  Request request;
  request.tenant_weight = 2.5f;
  EXPECT_TRUE(RefuseUnserved(request).ok());
  for (const float wrong : {0.0f, -1.0f, NAN, INFINITY}) {
    request.tenant_weight = wrong;
    EXPECT_EQ(RefuseUnserved(request).code(), StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(RequestTest, WhatPoolsDrawsNothing) {
  Request request;
  request.pooling = Pooling::kMean;
  EXPECT_EQ(RefuseUnserved(request).message(), "tokens_max must be 0 beside pooling, got 16");
  request.sampling.tokens_max = 0;
  EXPECT_TRUE(RefuseUnserved(request).ok());
}

TEST(RequestTest, DraftsAreAsManyAsOneLikes) {
  Request request;
  for (const int32_t fine : {-1, 0, 1, 1000}) {
    request.draft_tokens_max = fine;
    EXPECT_TRUE(RefuseUnserved(request).ok()) << fine;
  }
  request.draft_tokens_max = -1;
  request.activation_position = 3;
  EXPECT_TRUE(RefuseUnserved(request).ok());
  request.activation_position = -3;
  EXPECT_EQ(RefuseUnserved(request).message(),
            "activation_position must be 0 (as the adapter says) or more, got -3");
  request.activation_position = 0;
  request.draft_tokens_max = -2;
  EXPECT_EQ(RefuseUnserved(request).message(),
            "draft_tokens_max must be -1 (as the engine likes), 0 or more, got -2");
}

TEST(RequestTest, IdsOfFrontendsDiffer) {
  EXPECT_NE(RequestId(1, 7), RequestId(2, 7));
  EXPECT_EQ(RequestId(7), RequestId(0, 7));
  EXPECT_EQ(ToString(RequestId(1, 7)), "1:7");
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
  EXPECT_EQ(calls, 1);  // the queue was not empty, so the reader knows already
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
