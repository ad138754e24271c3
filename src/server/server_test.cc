// A real server on a free port, asked over real sockets: the answers that it gives.
#include "server/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "server/server_testing.h"

namespace graft {
namespace {

constexpr char kCompletion[] = R"({"model":"demo","prompt":"Once","max_tokens":3})";

std::string ErrorMessage(const RawResponse& response) {
  return response.json()["error"]["message"].get<std::string>();
}

// The whole text of a completion by the fake generator.
std::string ScriptText(int32_t num_tokens) {
  const std::vector<int32_t> script = DemoTokenizer().Encode("one two three", false).value();
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < num_tokens; ++i) tokens.push_back(script[i % script.size()]);
  return DemoTokenizer().Decode(tokens, true);
}

TEST(ServerTest, AnswersACompletion) {
  TestServer test;
  ASSERT_TRUE(test.start_status.ok()) << test.start_status.ToString();
  RawClient client(test.port());
  const RawResponse response = client.Post(
      "/v1/completions", R"({"model":"austen","prompt":"Once","max_tokens":5,"logprobs":2})");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  EXPECT_TRUE(response.headers.at("x-request-id").starts_with("req_"));
  const Json json = response.json();
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(json["model"], "austen");
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["text"], ScriptText(5));
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 5u);
  EXPECT_EQ(choice["logprobs"]["token_logprobs"][0], -0.25);
  EXPECT_EQ(json["usage"]["completion_tokens"], 5);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  const Request request = test.generator.submitted().at(0);
  EXPECT_EQ(request.adapter_hash(), "hash-of-austen");
  EXPECT_EQ(request.prompt_tokens, DemoTokenizer().Encode("Once", true).value());
  EXPECT_EQ(json["usage"]["prompt_tokens"], request.prompt_tokens.size());
}

TEST(ServerTest, SeveralPromptsAndChoicesKeepTheirPlaces) {
  TestServer test;
  RawClient client(test.port());
  const Json json = client
                        .Post("/v1/completions", R"({"model":"demo","prompt":[[5,6],[7]],"n":2,
                            "max_tokens":2,"echo":true,"seed":9})")
                        .json();
  ASSERT_EQ(json["choices"].size(), 4u);
  const std::string first = DemoTokenizer().Decode(std::vector<int32_t>{5, 6}, true);
  const std::string second = DemoTokenizer().Decode(std::vector<int32_t>{7}, true);
  for (int32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(json["choices"][i]["index"], i);
    EXPECT_TRUE(json["choices"][i]["text"].get<std::string>().starts_with(i < 2 ? first : second));
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(json["usage"]["completion_tokens"], 8);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 6);
  const std::vector<Request> requests = test.generator.submitted();
  EXPECT_EQ(requests[0].sampling.seed, 9u);
  EXPECT_NE(requests[1].sampling.seed, 9u);
  EXPECT_EQ(requests[2].sampling.seed, 9u);
}

TEST(ServerTest, ScoresAPrompt) {
  TestServer test;
  RawClient client(test.port());
  const Json json = client
                        .Post("/v1/completions", R"({"model":"demo","prompt":"Once upon a time",
                            "echo":true,"logprobs":0,"max_tokens":0})")
                        .json();
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["text"], "Once upon a time");
  const size_t num_tokens = DemoTokenizer().Encode("Once upon a time", true).value().size();
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), num_tokens);
  EXPECT_TRUE(choice["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_EQ(choice["logprobs"]["token_logprobs"][1], -0.5);
  EXPECT_EQ(json["usage"]["completion_tokens"], 0);
}

TEST(ServerTest, AnswersAChatThroughTheTemplate) {
  TestServer test;
  RawClient client(test.port());
  const RawResponse response = client.Post("/v1/chat/completions", R"({"model":"demo",
      "messages":[{"role":"user","content":"Begin."}],"max_tokens":4,"logprobs":true,
      "top_logprobs":1})");
  ASSERT_EQ(response.status, 200) << response.body;
  const Json json = response.json();
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(json["choices"][0]["message"]["content"], ScriptText(4));
  EXPECT_EQ(json["choices"][0]["logprobs"]["content"].size(), 4u);
  const std::string prompt = "<|begin_of_text|><|start|>user\nBegin.<|end|>\n<|start|>assistant\n";
  EXPECT_EQ(test.generator.submitted().at(0).prompt_tokens,
            DemoTokenizer().Encode(prompt, false).value());
}

TEST(ServerTest, ChatRunsToTheContextsEndByDefault) {
  TestServer test;
  test.generator.set_eos(DemoTokenizer().TokenId("<|end_of_text|>").value());
  RawClient client(test.port());
  const Json json = client
                        .Post("/v1/chat/completions", R"({"model":"demo",
                            "messages":[{"role":"user","content":"x"}]})")
                        .json();
  EXPECT_EQ(json["choices"][0]["message"]["content"], "one two three");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  const Request request = test.generator.submitted().at(0);
  EXPECT_EQ(request.sampling.tokens_max, 1024 - static_cast<int32_t>(request.prompt_tokens.size()));
}

TEST(ServerTest, ChatWithoutATemplateIsRefused) {
  TestServer test({}, /*with_template=*/false);
  RawClient client(test.port());
  const RawResponse response = client.Post(
      "/v1/chat/completions", R"({"model":"demo","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(ErrorMessage(response).find("chat template"), std::string::npos);
}

TEST(ServerTest, StreamsACompletion) {
  TestServer test;
  RawClient client(test.port());
  const RawResponse response = client.Post(
      "/v1/completions", R"({"model":"demo","prompt":"Once","max_tokens":9,"stream":true,"n":2,
        "stream_options":{"include_usage":true}})");
  ASSERT_EQ(response.status, 200);
  EXPECT_TRUE(response.complete);
  EXPECT_TRUE(response.headers.at("content-type").starts_with("text/event-stream"));
  std::vector<std::string> events = response.events();
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  const Json last = Json::parse(events.back());
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_EQ(last["usage"]["completion_tokens"], 18);
  events.pop_back();
  std::string texts[2], finishes[2];
  for (const std::string& event : events) {
    const Json json = Json::parse(event);
    EXPECT_TRUE(json["usage"].is_null());
    EXPECT_EQ(json["id"], last["id"]);
    const Json& choice = json["choices"].at(0);
    const int idx = choice["index"];
    EXPECT_EQ(finishes[idx], "") << "a chunk after the finish";
    texts[idx] += choice["text"].get<std::string>();
    if (!choice["finish_reason"].is_null()) finishes[idx] = choice["finish_reason"];
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(texts[i], ScriptText(9));
    EXPECT_EQ(finishes[i], "length");
  }
  // The connection can still be used.
  EXPECT_EQ(client.Get("/health").status, 200);
}

TEST(ServerTest, StreamsAChat) {
  TestServer test;
  RawClient client(test.port());
  const RawResponse response = client.Post(
      "/v1/chat/completions", R"({"model":"demo","messages":[{"role":"user","content":"x"}],
        "max_tokens":4,"stream":true})");
  const std::vector<std::string> events = response.events();
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["delta"]["role"], "assistant");
  EXPECT_FALSE(Json::parse(events[0]).contains("usage"));
  std::string text;
  for (size_t i = 1; i + 2 < events.size(); ++i) {
    text += Json::parse(events[i])["choices"][0]["delta"]["content"].get<std::string>();
  }
  EXPECT_EQ(text, ScriptText(4));
  EXPECT_EQ(Json::parse(events[events.size() - 2])["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(ServerTest, AStopStringEndsTheRequestInTheEngineToo) {
  TestServer test;
  test.generator.set_tick(std::chrono::milliseconds(2));
  for (const bool stream : {false, true}) {
    RawClient client(test.port());
    const Json body = {{"model", "demo"},
                       {"prompt", "x"},
                       {"max_tokens", 900},
                       {"stop", "three"},
                       {"stream", stream}};
    const RawResponse response = client.Post("/v1/completions", body.dump());
    ASSERT_EQ(response.status, 200);
    std::string text;
    std::string finish;
    if (stream) {
      for (const std::string& event : response.events()) {
        if (event == "[DONE]") continue;
        const Json choice = Json::parse(event)["choices"][0];
        text += choice["text"].get<std::string>();
        if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
      }
    } else {
      text = response.json()["choices"][0]["text"];
      finish = response.json()["choices"][0]["finish_reason"];
      const int32_t used = response.json()["usage"]["completion_tokens"];
      EXPECT_LE(used, static_cast<int32_t>(
                          DemoTokenizer().Encode("one two three", false).value().size()));
    }
    EXPECT_EQ(text, "one two ");
    EXPECT_EQ(finish, "stop");
    EXPECT_TRUE(test.generator.WaitForCancelled(stream ? 2 : 1));
    EXPECT_TRUE(test.generator.WaitForRunning(0));
  }
}

TEST(ServerTest, FailuresOfTheEngineReachTheClient) {
  TestServer test;
  RawClient client(test.port());
  test.generator.set_fail_after(0);
  const std::string stream = R"({"model":"demo","prompt":"x","max_tokens":9,"stream":true})";
  EXPECT_EQ(client.Post("/v1/completions", kCompletion).status, 500);
  EXPECT_EQ(client.Post("/v1/completions", stream).status, 500);  // no token yet: a real status
  test.generator.set_fail_after(-1);
  test.generator.set_tick(std::chrono::milliseconds(2));
  const std::string body = R"({"model":"demo","prompt":"x","max_tokens":1000,"stream":true})";
  client.Send(kPostCompletion + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  // It fails once the client has a part of the answer.
  std::string seen;
  const auto read_until = [&](const std::string& end) {
    while (seen.find(end) == std::string::npos) {
      const std::string more = client.ReceiveSome();
      ASSERT_NE(more, "") << seen;
      seen += more;
    }
  };
  read_until("data: ");
  test.generator.set_fail_after(FakeGenerator::kFailNow);
  read_until("\r\n0\r\n\r\n");
  EXPECT_TRUE(seen.starts_with("HTTP/1.1 200"));
  const size_t last = seen.rfind("data: ");
  EXPECT_NE(seen.find("\"the fake engine failed as told\"", last), std::string::npos) << seen;
  test.generator.set_fail_after(-1);
  test.generator.set_tick(std::chrono::milliseconds(1));
  EXPECT_EQ(client.Post("/v1/completions", kCompletion).status, 200);
}

// As the engine ends the requests of a step that found no memory.
TEST(ServerTest, AStepWithoutMemoryIsA503ThatMayBeTriedAgain) {
  TestServer test;
  RawClient client(test.port());
  test.generator.set_fail_after(0, UnavailableError("memory ran out in a step of 7 rows"));
  for (const char* stream : {"false", "true"}) {
    const RawResponse response = client.Post(
        "/v1/completions",
        std::string(R"({"model":"demo","prompt":"x","max_tokens":9,"stream":)") + stream + "}");
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(ErrorMessage(response), "memory ran out in a step of 7 rows");
    EXPECT_EQ(response.headers.count("retry-after"), 1u);
  }
  test.generator.set_fail_after(-1);
  EXPECT_EQ(client.Post("/v1/completions", kCompletion).status, 200);
}

TEST(ServerTest, RefusalsOfTheEngineHaveTheRightStatus) {
  TestServer test;
  const std::pair<Status, int> cases[] = {{ResourceExhaustedError("the queue is full"), 429},
                                          {UnavailableError("draining"), 503},
                                          {InvalidArgumentError("too long"), 400},
                                          {NotFoundError("no such adapter"), 404}};
  for (const auto& [status, http_status] : cases) {
    test.generator.set_submit_status(status);
    for (const char* stream : {"false", "true"}) {
      RawClient client(test.port());
      const RawResponse response = client.Post(
          "/v1/completions",
          std::string(R"({"model":"demo","prompt":"x","n":3,"stream":)") + stream + "}");
      EXPECT_EQ(response.status, http_status);
      EXPECT_EQ(ErrorMessage(response), status.message());
      EXPECT_EQ(response.headers.count("retry-after"), http_status == 429 || http_status == 503);
      if (http_status == 429) {
        EXPECT_EQ(response.headers.at("retry-after"), "7") << "as the engine says";
      }
    }
  }
}

TEST(ServerTest, WithoutARunnerTheNextTryIsAfterOneHasStarted) {
  std::atomic<int32_t> num_runners = 0;
  TestServer test({}, true, [&num_runners] {
    return FleetFigures{.runners = num_runners, .startup_seconds = 12.5};
  });
  test.generator.set_submit_status(UnavailableError("no runner is up"));
  test.ready = UnavailableError("no runner is up");
  RawClient client(test.port());
  for (const auto& [runners, retry_after] : {std::pair{0, "13"}, std::pair{1, "1"}}) {
    num_runners = runners;
    for (const RawResponse& response :
         {client.Post("/v1/completions", kCompletion), client.Get("/ready")}) {
      EXPECT_EQ(response.status, 503);
      EXPECT_EQ(response.headers.at("retry-after"), retry_after);
    }
  }
}

TEST(ServerTest, AutoscalersReadHowManyRunnersThereShouldBe) {
  std::atomic<bool> has_shrunk = false;  // the dashboard's thread asks, too
  TestServer test({.metrics_need_admin = false}, true, [&has_shrunk] {
    return FleetFigures{.runners = 3,
                        .runners_wanted = has_shrunk ? 2 : 5,
                        .runners_spare = has_shrunk ? 1 : 0,
                        .startup_seconds = 12.5};
  });
  RawClient client(test.port());
  const RawResponse response = client.Get("/scale");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(Json::parse(response.body), Json::parse(R"({"runners": 3, "runners_wanted": 5,
      "runners_spare": 0, "startup_seconds": 12.5})"));
  has_shrunk = true;
  const std::string page = client.Get("/metrics").body;
  for (const char* const line :
       {"\ngraft_runners 3\n", "\ngraft_runners_wanted 2\n", "\ngraft_runners_spare 1\n",
        "\ngraft_runner_startup_seconds 12.5\n"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(client.Post("/scale", "{}").status, 405);
}

TEST(ServerTest, AServerWithoutRunnersHasNothingToScale) {
  TestServer test;
  RawClient client(test.port());
  EXPECT_EQ(client.Get("/scale").status, 404);
  EXPECT_EQ(client.Get("/metrics").body.find("graft_runners"), std::string::npos);
}

TEST(ServerTest, UnknownModelsAre404WithTheNearestNames) {
  TestServer test;
  RawClient client(test.port());
  const RawResponse response = client.Post("/v1/completions", R"({"model":"doile","prompt":"x"})");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.json()["error"]["code"], "model_not_found");
  EXPECT_EQ(response.json()["error"]["param"], "model");
  EXPECT_NE(ErrorMessage(response).find("'doyle'"), std::string::npos);
  EXPECT_TRUE(test.generator.submitted().empty());
  EXPECT_EQ(client.Get("/v1/models/doile").status, 404);
}

TEST(ServerTest, ListsModels) {
  TestServer test;
  RawClient client(test.port());
  const Json list = client.Get("/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 4u);
  EXPECT_EQ(list["data"][0]["id"], "demo");
  EXPECT_EQ(list["data"][1]["parent"], "demo");
  EXPECT_EQ(list["data"][1]["rank"], 16);
  EXPECT_EQ(list["data"][1]["hash"], "hash-of-austen");
  EXPECT_EQ(list["data"][1]["state"], "resident");
  EXPECT_EQ(list["data"][2]["state"], "host");
  EXPECT_FALSE(list["data"][0].contains("state")) << "the base model is always there";
  for (const Json& model : list["data"]) {
    EXPECT_EQ(model["object"], "model");
    EXPECT_TRUE(model["created"].is_number_integer());
    EXPECT_TRUE(model["owned_by"].is_string());
  }
  EXPECT_EQ(client.Get("/v1/models/doyle%2Dlarge").json()["id"], "doyle-large");
}

TEST(ServerTest, BadRequestsAreNamedAndTheServerLives) {
  TestServer test;
  RawClient client(test.port());
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const std::pair<std::string, std::string> cases[] = {
      {"", "empty"},
      {"{", "not valid JSON"},
      {"{\"model\":\"demo\",}", "not valid JSON"},
      {"\xff\xfe", "not valid JSON"},
      {"{\"model\":\"demo\",\"prompt\":\"\xff\"}", "not valid JSON"},
      {R"({"model":"demo","prompt":"\ud800"})", "not valid JSON"},
      {deep, "nested deeper"},
      {"{\"model\":\"demo\",\"prompt\":" + deep + "}", "nested deeper"},
      {R"({"model":"demo","prompt":"x","max_tokens":1000000})", "context length"},
      {R"({"model":"demo","prompt":"x","temperature":-1})", "temperature"},
      {R"({"model":"demo","prompt":"x","top_p":0})", "top_p"},
      {R"({"model":"demo","prompt":[99999]})", "99999"},
      {R"({"model":"demo","prompt":"x","logit_bias":{"99999":1}})", "99999"},
      {R"({"model":"demo","prompt":"x","min_tokens":99})", "min_tokens"},
      {R"({"model":"demo","prompt":""   ,"add_special_tokens":false})", "empty"},
      {R"({"model":"demo","prompt":"x","bogus":1})", "bogus"},
  };
  for (const auto& [body, part] : cases) {
    const RawResponse response = client.Post("/v1/completions", body);
    EXPECT_EQ(response.status, 400) << body.substr(0, 80);
    const Json error = response.json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_NE(error["message"].get<std::string>().find(part), std::string::npos)
        << body.substr(0, 80) << ": " << error["message"];
  }
  EXPECT_EQ(client.Post("/v1/completions", kCompletion).status, 200);
}

TEST(ServerTest, LongPromptsAreTokenisedByAWorker) {
  ServerOptions options;
  options.inline_body_bytes_max = 100;
  TestServer test(options);
  RawClient client(test.port());
  const Json body = {{"model", "demo"}, {"prompt", std::string(900, 'x')}, {"max_tokens", 3}};
  EXPECT_EQ(client.Post("/v1/completions", body.dump()).status, 200);
  const Json too_long = {{"model", "demo"}, {"prompt", std::string(300000, 'a')}};
  const RawResponse response = client.Post("/v1/completions", too_long.dump());
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.json()["error"]["code"], "context_length_exceeded");
}

TEST(ServerTest, RoutesAndMethods) {
  TestServer test;
  RawClient client(test.port());
  EXPECT_EQ(client.Get("/nowhere").status, 404);
  EXPECT_EQ(client.Get("/").status, 404);
  const RawResponse wrong = client.Get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(client.Post("/health", "").status, 405);
  client.Send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawResponse head = client.Receive(/*head_only=*/true);
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.headers.at("content-length"), "0");
  client.Send("OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawResponse options = client.Receive();
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(options.headers.count("access-control-allow-origin"), 0u);
  client.Send("BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 405);
  client.Send(kPostCompletion + "Content-Length: 0\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 400);
  EXPECT_EQ(client.Post("/v1/completions", "a=b", "Content-Encoding: gzip\r\n").status, 415);
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/x-www-form-urlencoded\r\n"
      "Content-Length: 3\r\n\r\na=b");
  EXPECT_EQ(client.Receive().status, 415);
}

TEST(ServerTest, CorsWhereAskedFor) {
  ServerOptions options;
  options.cors_allow_origin = "https://app.example";
  TestServer test(options);
  RawClient client(test.port());
  EXPECT_EQ(client.Get("/health").headers.at("access-control-allow-origin"), "https://app.example");
  client.Send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: "
      "https://app.example\r\n\r\n");
  EXPECT_NE(client.Receive().headers.at("access-control-allow-headers").find("Authorization"),
            std::string::npos);
}

TEST(ServerTest, HealthReadyAndMetrics) {
  TestServer test;
  RawClient client(test.port());
  EXPECT_EQ(client.Get("/health").status, 200);
  EXPECT_EQ(client.Get("/ready").status, 200);
  EXPECT_EQ(client.Post("/v1/completions", kCompletion).status, 200);
  client.Get("/nowhere");
  const std::string page = client.Get("/metrics").body;
  EXPECT_NE(page.find("graft_http_requests_total{route=\"/v1/completions\",status=\"200\"} 1"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("graft_http_requests_total{route=\"unknown\",status=\"404\"} 1"),
            std::string::npos);
  EXPECT_NE(page.find("graft_http_first_token_seconds_count{route=\"/v1/completions\"} 1"),
            std::string::npos);
  EXPECT_NE(page.find("graft_http_connections 1"), std::string::npos);
}

TEST(ServerTest, TheAddressAloneIsAPageForBrowsersAndAnErrorForPrograms) {
  TestServer test;
  RawClient client(test.port());
  const RawResponse page = client.Get("/", "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  for (const char* link : {"\"/dashboard\"", "\"/v1/models\""}) {
    EXPECT_NE(page.body.find(link), std::string::npos) << link;
  }
  for (const char* accept : {"", "Accept: */*\r\n", "Accept: application/json\r\n"}) {
    const RawResponse refused = client.Get("/", accept);
    EXPECT_EQ(refused.status, 404);
    EXPECT_EQ(refused.json()["error"]["code"], "unknown_url");
  }
}

// A server that learns nothing knows how an adapter's name is taken away all the same.
TEST(ServerTest, DeletingAModelThatWasNotLearnedSaysWhatToDo) {
  TestServer test;
  RawClient client(test.port());
  const auto answer_to = [&](const std::string& model) {
    client.Send("DELETE /v1/models/" + model + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return client.Receive();
  };
  const RawResponse refused = answer_to("austen");
  EXPECT_EQ(refused.status, 403);
  EXPECT_NE(refused.body.find("/v1/unload_lora_adapter"), std::string::npos) << refused.body;
  EXPECT_EQ(answer_to("demo").status, 403);
  EXPECT_EQ(answer_to("demo").body.find("unload"), std::string::npos);
  EXPECT_EQ(answer_to("nobody").status, 404);
}

TEST(ServerTest, ReadySaysWhyNot) {
  TestServer test;
  test.ready = UnavailableError("the model is loading");
  RawClient client(test.port());
  const RawResponse response = client.Get("/ready");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(ErrorMessage(response), "the model is loading");
}

TEST(ServerTest, ChunkedBodiesAndContinue) {
  TestServer test;
  RawClient client(test.port());
  client.Send(kPostCompletion + "Transfer-Encoding: chunked\r\n\r\n");
  const std::string body = kCompletion;
  for (size_t i = 0; i < body.size(); i += 7) {
    const std::string part = body.substr(i, 7);
    client.Send(std::to_string(part.size()) + "\r\n" + part + "\r\n");
  }
  client.Send("0\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 200);
  client.Send(kPostCompletion + "Expect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 100);
  client.Send(body);
  EXPECT_EQ(client.Receive().status, 200);
}

TEST(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  TestServer test;
  RawClient client(test.port());
  std::string all;
  for (int i = 0; i < 20; ++i) {
    const Json body = {{"model", "demo"}, {"prompt", "x"}, {"max_tokens", i + 1}};
    const std::string text = body.dump();
    all += kPostCompletion + "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
  }
  client.Send(all);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client.Receive().json()["usage"]["completion_tokens"], i + 1);
  }
}

TEST(ServerTest, HttpOneZeroStreamsUntilTheEnd) {
  TestServer test;
  RawClient client(test.port());
  const std::string body = R"({"model":"demo","prompt":"x","max_tokens":3,"stream":true})";
  client.Send(
      "POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const RawResponse response = client.Receive();
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0u);
  EXPECT_EQ(response.events().back(), "[DONE]");
}

TEST(ServerTest, ManyStreamsAtOnce) {
  TestServer test;
  test.generator.set_tick(std::chrono::milliseconds(1));
  constexpr int kClients = 100;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(test.port()));
    const Json body = {
        {"model", "demo"}, {"prompt", "x"}, {"max_tokens", 20 + i}, {"stream", true}};
    const std::string text = body.dump();
    clients.back()->Send(kPostCompletion + "Content-Length: " + std::to_string(text.size()) +
                         "\r\n\r\n" + text);
  }
  for (int i = 0; i < kClients; ++i) {
    std::string text;
    for (const std::string& event : clients[i]->Receive().events()) {
      if (event != "[DONE]") text += Json::parse(event)["choices"][0]["text"].get<std::string>();
    }
    EXPECT_EQ(text, ScriptText(20 + i));
  }
}

}  // namespace
}  // namespace graft
