// /tokenize, /detokenize and the probes over HTTP, and requests that go on with a message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/server_testing.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

class TokenEndpointsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.start_status.ok()); }

  Json Post(const std::string& path, const std::string& body, int status = 200) {
    const RawResponse response = client_.Post(path, body);
    EXPECT_EQ(response.status, status) << response.body;
    return response.json();
  }
  // What the engine was given by the last request.
  std::string Prompt() {
    return DemoTokenizer().Decode(server_.generator.submitted().back().prompt_tokens, false);
  }

  TestServer server_;
  RawClient client_{server_.port()};
};

TEST_F(TokenEndpointsTest, TextsBecomeTokensAndBack) {
  const std::string text = "It is a naïve café. 🙂";
  const Json plain = Post("/tokenize", DumpJson({{"model", "austen"}, {"prompt", text}}));
  const auto tokens = DemoTokenizer().Encode(text, /*add_special_tokens=*/true).value();
  EXPECT_EQ(plain["tokens"], Json(tokens));
  EXPECT_EQ(plain["count"], tokens.size());
  EXPECT_EQ(plain["max_model_len"], 1024);
  EXPECT_TRUE(plain["token_strs"].is_null());
  const Json bare = Post(
      "/tokenize",
      DumpJson({{"prompt", text}, {"add_special_tokens", false}, {"return_token_strs", true}}));
  EXPECT_EQ(bare["tokens"], Json(DemoTokenizer().Encode(text, false).value()));
  EXPECT_EQ(bare["token_strs"].size(), bare["tokens"].size());
  EXPECT_EQ(
      Post("/detokenize", DumpJson({{"model", "demo"}, {"tokens", bare["tokens"]}}))["prompt"],
      text);
}

TEST_F(TokenEndpointsTest, AChatsTokensAreThoseOfItsRequest) {
  const std::string messages = R"("messages":[{"role":"user","content":"Begin."}])";
  Post("/v1/chat/completions", R"({"model":"demo","max_tokens":1,)" + messages + "}");
  EXPECT_EQ(Post("/tokenize", R"({"model":"demo",)" + messages + "}")["tokens"],
            Json(server_.generator.submitted().back().prompt_tokens));
}

TEST_F(TokenEndpointsTest, WhatCannotBeIsRefusedByName) {
  EXPECT_EQ(Post("/tokenize", "{}", 400)["error"]["param"], "prompt");
  EXPECT_EQ(Post("/tokenize", R"({"prompt":3})", 400)["error"]["param"], "prompt");
  EXPECT_EQ(Post("/tokenize", R"({"prompt":"x","model":"nobody"})", 404)["error"]["code"],
            "model_not_found");
  EXPECT_EQ(Post("/tokenize", R"({"prompt":"x","prompts":"y"})", 400)["error"]["code"],
            "unknown_field");
  EXPECT_EQ(Post("/detokenize", "{}", 400)["error"]["param"], "tokens");
  EXPECT_EQ(Post("/detokenize", R"({"tokens":[1,999999]})", 400)["error"]["param"], "tokens");
}

TEST_F(TokenEndpointsTest, ProbesAnswer) {
  EXPECT_EQ(client_.Get("/ping").status, 200);
  EXPECT_EQ(client_.Get("/version").json()["version"], GRAFT_VERSION);
  EXPECT_EQ(client_.Get("/load").json()["server_load"], 0);
  server_.ready = UnavailableError("not yet");
  EXPECT_EQ(client_.Get("/ping").status, 503);
}

TEST_F(TokenEndpointsTest, VllmsNamesTellOfRequestsInFlight) {
  server_.generator.set_hold(true);
  RawClient other(server_.port());
  const std::string body = R"({"model":"austen","prompt":"x","max_tokens":2})";
  other.Send(kPostCompletion + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
             body);
  ASSERT_TRUE(server_.generator.WaitForRunning(1));
  EXPECT_EQ(client_.Get("/load").json()["server_load"], 1);
  std::string page = client_.Get("/metrics").body;
  EXPECT_THAT(page, HasSubstr("vllm:num_requests_waiting{model_name=\"demo\",engine=\"0\"} 1"));
  EXPECT_THAT(page, HasSubstr("running_lora_adapters=\"\",waiting_lora_adapters=\"austen\"} "));
  server_.generator.set_hold(false);
  EXPECT_EQ(other.Receive().status, 200);
  // By the same connection: an answer is counted before the next request is read.
  page = other.Get("/metrics").body;
  EXPECT_THAT(page, HasSubstr("vllm:generation_tokens_total{model_name=\"demo\",engine=\"0\"} 2"));
  EXPECT_THAT(page, HasSubstr("vllm:e2e_request_latency_seconds_count"));
  EXPECT_THAT(page, HasSubstr("vllm:num_requests_waiting{model_name=\"demo\",engine=\"0\"} 0"));
  EXPECT_THAT(page, HasSubstr("vllm:lora_requests_info"));
}

TEST_F(TokenEndpointsTest, AFrontendsAdaptersMaxIsThatOfAllItsRunners) {
  const std::string before = client_.Get("/metrics").body;
  EXPECT_THAT(before, HasSubstr("max_lora=\"0\"")) << "this one does not say";
  for (const char* const runner : {"a:1", "b:1"}) {
    server_.metrics.Gauge("graft_runner_adapters_max", "", {{"runner", runner}}).Set(24);
  }
  EXPECT_THAT(client_.Get("/metrics").body, HasSubstr("max_lora=\"48\""));
}

TEST_F(TokenEndpointsTest, AnAnswerGoesOnWithTheLastMessage) {
  const std::string messages =
      R"("messages":[{"role":"user","content":"Name one."},
                     {"role":"assistant","content":"One is "}])";
  Post("/v1/chat/completions",
       R"({"model":"demo","max_tokens":1,"continue_final_message":true,)" + messages + "}");
  EXPECT_TRUE(Prompt().ends_with("One is") || Prompt().ends_with("One is ")) << Prompt();
  EXPECT_EQ(Post("/v1/chat/completions",
                 R"({"model":"demo","continue_final_message":true,"add_generation_prompt":true,)" +
                     messages + "}",
                 400)["error"]["param"],
            "continue_final_message");
  EXPECT_EQ(Post("/v1/chat/completions",
                 R"({"model":"demo","continue_final_message":true,
                     "messages":[{"role":"user","content":""}]})",
                 400)["error"]["param"],
            "continue_final_message");
}

TEST_F(TokenEndpointsTest, BadWordsAreTheTokensOfBothTheirForms) {
  Post("/v1/completions", R"({"model":"demo","prompt":"x","bad_words":["the"," Elizabeth"]})");
  const std::vector<std::vector<int32_t>> words =
      server_.generator.submitted().back().sampling.bad_words;
  std::vector<std::string> texts;
  for (const std::vector<int32_t>& word : words)
    texts.push_back(DemoTokenizer().Decode(word, true));
  EXPECT_THAT(texts, ::testing::IsSupersetOf({"the", "Elizabeth"}));
  EXPECT_GE(words.size(), 3u);
  EXPECT_EQ(Post("/v1/completions", R"({"model":"demo","prompt":"x","bad_words":[""]})",
                 400)["error"]["param"],
            "bad_words[0]");
}

TEST_F(TokenEndpointsTest, AllowedTokensReachTheEngine) {
  Post("/v1/completions", R"({"model":"demo","prompt":"x","allowed_token_ids":[5,7]})");
  EXPECT_EQ(server_.generator.submitted().back().sampling.allowed_token_ids,
            (std::vector<int32_t>{5, 7}));
  for (const std::string ids : {"[]", "[-1]", "[9999999]"}) {
    const Json error = Post(
        "/v1/completions", R"({"model":"demo","prompt":"x","allowed_token_ids":)" + ids + "}", 400);
    EXPECT_THAT(error["error"]["param"].get<std::string>(),
                ::testing::StartsWith("allowed_token_ids"));
  }
}

TEST_F(TokenEndpointsTest, TokensCanBeNamedByTheirIds) {
  const std::string fields = R"("max_tokens":2,"return_tokens_as_token_ids":true)";
  const Json completion =
      Post("/v1/completions", R"({"model":"demo","prompt":"x","logprobs":1,)" + fields + "}");
  const Json chat = Post("/v1/chat/completions",
                         R"({"model":"demo","messages":[{"role":"user","content":"x"}],
                             "logprobs":true,"top_logprobs":1,)" +
                             fields + "}");
  const std::string name =
      "token_id:" + std::to_string(DemoTokenizer().Encode("one two three", false).value()[0]);
  const Json& logprobs = completion["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"][0], name);
  EXPECT_TRUE(logprobs["top_logprobs"][0].contains(name)) << logprobs;
  const Json& entry = chat["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["token"], name);
  EXPECT_EQ(entry["top_logprobs"][0]["token"], name);
}

TEST_F(TokenEndpointsTest, AStreamCanTellTheUsageAllAlong) {
  const std::string body =
      R"({"model":"demo","prompt":"x","max_tokens":3,"stream":true,"stream_options":)";
  const RawResponse response = client_.Post(
      "/v1/completions", body + R"({"include_usage":true,"continuous_usage_stats":true}})");
  int64_t before = 0;
  for (const std::string& event : response.events()) {
    if (event == "[DONE]") continue;
    const Json usage = ParseJson(event).value()["usage"];
    ASSERT_TRUE(usage.is_object()) << event;
    EXPECT_GE(usage["completion_tokens"].get<int64_t>(), before);
    before = usage["completion_tokens"];
  }
  EXPECT_EQ(before, 3);
  const Json error = Post("/v1/completions", body + R"({"continuous_usage_stats":true}})", 400);
  EXPECT_EQ(error["error"]["param"], "stream_options.continuous_usage_stats");
}

TEST_F(TokenEndpointsTest, APromptsLastTokensAreKept) {
  const std::string text = "one two three four five";
  const auto tokens = DemoTokenizer().Encode(text, true).value();
  Post("/v1/completions",
       R"({"model":"demo","max_tokens":1,"truncate_prompt_tokens":3,"prompt":")" + text + "\"}");
  EXPECT_EQ(server_.generator.submitted().back().prompt_tokens,
            std::vector<int32_t>(tokens.end() - 3, tokens.end()));
  Post("/v1/completions",
       R"({"model":"demo","max_tokens":4,"truncate_prompt_tokens":-1,"prompt":")" +
           std::string(100'000, 'x') + "\"}");
  EXPECT_EQ(server_.generator.submitted().back().prompt_tokens.size(), 1020u);
  const Json echoed = Post("/v1/completions",
                           R"({"model":"demo","max_tokens":0,"echo":true,"truncate_prompt_tokens":2,
                                  "prompt":")" +
                               text + "\"}");
  EXPECT_EQ(echoed["choices"][0]["text"].get<std::string>(),
            DemoTokenizer().Decode(std::vector<int32_t>(tokens.end() - 2, tokens.end()), true));
  EXPECT_EQ(Post("/v1/completions", R"({"model":"demo","truncate_prompt_tokens":0,"prompt":"x"})",
                 400)["error"]["param"],
            "truncate_prompt_tokens");
}

}  // namespace
}  // namespace graft
