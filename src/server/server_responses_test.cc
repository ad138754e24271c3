// /v1/responses over HTTP: the model's text is a script, all else is real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "server/server_testing.h"

namespace graft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kResponsesTemplate[] =
    "{% if tools %}{{ tools | tojson }}\n{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }} "
    "{{ c.function.arguments.city }}</tool_call>{% endfor %}<|end|>{% endfor %}<|assistant|>"
    "{# <think> #}";

constexpr char kFlatTools[] =
    R"(,"tools":[{"type":"function","name":"weather","parameters":
       {"type":"object","properties":{"city":{"type":"string"}}}}])";

constexpr char kCallingAnswer[] =
    "<think>\nI look.\n</think>\n\nOne moment.\n"
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\"}}\n</tool_call>";

class ResponsesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.start_status.ok()); }

  RawResponse Ask(const std::string& answer, const std::string& fields) {
    server_.generator.set_answers({answer});
    return client_.Post("/v1/responses", R"({"model":"demo",)" + fields + "}");
  }
  std::string LastPrompt() {
    return DemoTokenizer().Decode(server_.generator.submitted().back().prompt_tokens, false);
  }
  RawResponse Delete(const std::string& path) {
    client_.Send("DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return client_.Receive();
  }

  const ChatTemplate chat_template_ = ChatTemplate::Parse(kResponsesTemplate).value();
  TestServer server_{ServerOptions(), &chat_template_};
  RawClient client_{server_.port()};
};

TEST_F(ResponsesTest, AnAnswerIsAListOfItems) {
  const Json response =
      Ask(kCallingAnswer, std::string(R"("input":"weather?","instructions":"Help.")") + kFlatTools)
          .json();
  EXPECT_THAT(response["id"].get<std::string>(), StartsWith("resp_"));
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["instructions"], "Help.");
  EXPECT_EQ(response["store"], true);
  ASSERT_EQ(response["output"].size(), 3u) << response;
  const Json& output = response["output"];
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["content"][0]["text"], "I look.");
  EXPECT_EQ(output[1]["content"][0]["text"], "One moment.");
  EXPECT_EQ(output[2]["name"], "weather");
  EXPECT_EQ(output[2]["arguments"], "{\"city\": \"Zürich\"}");
  EXPECT_GT(response["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_EQ(response["usage"]["input_tokens_details"]["cache_write_tokens"], 0);
  EXPECT_EQ(response["usage"]["total_tokens"], response["usage"]["input_tokens"].get<int>() +
                                                   response["usage"]["output_tokens"].get<int>());
  EXPECT_THAT(LastPrompt(), HasSubstr(R"([{"type": "function", "function": {"name": "weather")"));
  EXPECT_THAT(LastPrompt(), HasSubstr("<|system|>Help.<|end|><|user|>weather?<|end|>"));
}

TEST_F(ResponsesTest, AStreamSaysTheSameInOpenAIsOrder) {
  const RawResponse whole = Ask(kCallingAnswer, std::string(R"("input":"weather?")") + kFlatTools);
  const RawResponse response =
      Ask(kCallingAnswer, std::string(R"("input":"weather?","stream":true)") + kFlatTools);
  std::vector<std::string> types;
  std::vector<std::string> texts(3);
  Json last;
  int64_t number = 0;
  for (const std::string& data : response.events()) {
    const Json event = ParseJson(data).value();
    EXPECT_EQ(event["sequence_number"], number++);
    EXPECT_THAT(response.body, HasSubstr("event: " + event["type"].get<std::string>() + "\ndata:"));
    if (event.contains("delta")) {
      texts.at(event["output_index"].get<size_t>()) += event["delta"].get<std::string>();
    }
    if (types.empty() || types.back() != event["type"]) types.push_back(event["type"]);
    last = event;
  }
  EXPECT_THAT(types,
              ElementsAre("response.created", "response.in_progress",  //
                          "response.output_item.added", "response.content_part.added",
                          "response.reasoning_text.delta", "response.reasoning_text.done",
                          "response.content_part.done", "response.output_item.done",  //
                          "response.output_item.added", "response.content_part.added",
                          "response.output_text.delta", "response.output_text.done",
                          "response.content_part.done", "response.output_item.done",  //
                          "response.output_item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done",
                          "response.completed"));
  EXPECT_THAT(texts, ElementsAre("I look.", "One moment.", "{\"city\": \"Zürich\"}"));
  Json streamed = last["response"], expected = whole.json();
  for (Json* one : {&streamed, &expected}) {
    for (Json& item : (*one)["output"]) item.erase("id"), item.erase("call_id");
    one->erase("id"), one->erase("created_at"), one->erase("usage");
  }
  EXPECT_EQ(streamed, expected);
}

TEST_F(ResponsesTest, AConversationGoesOn) {
  const Json first =
      Ask(kCallingAnswer, std::string(R"("input":"weather?","instructions":"One.")") + kFlatTools)
          .json();
  const std::string id = first["id"];
  const std::string call_id = first["output"][2]["call_id"];
  const Json second = Ask("Sunny.", R"("instructions":"Two.","previous_response_id":")" + id +
                                        R"(","input":[{"type":"function_call_output","call_id":")" +
                                        call_id + R"(","output":"22 degrees"}])")
                          .json();
  EXPECT_EQ(second["output"][0]["content"][0]["text"], "Sunny.");
  EXPECT_EQ(second["previous_response_id"], id);
  EXPECT_EQ(LastPrompt().substr(LastPrompt().find("<|system|>")),
            "<|system|>Two.<|end|><|user|>weather?<|end|><|assistant|>One moment."
            "<tool_call>weather Zürich</tool_call><|end|><|tool|>22 degrees<|end|><|assistant|>");
  // Deleting the first turn takes the conversation's beginning away.
  EXPECT_EQ(Delete("/v1/responses/" + id).json()["deleted"], true);
  const RawResponse third = Ask(
      "x", R"("input":"and?","previous_response_id":")" + second["id"].get<std::string>() + "\"");
  EXPECT_EQ(third.status, 400);
  EXPECT_EQ(third.json()["error"]["code"], "previous_response_not_found");
  EXPECT_THAT(third.body, HasSubstr("is not stored any more"));
}

TEST_F(ResponsesTest, StoredOnesAreReadListedAndDeleted) {
  const RawResponse response = Ask("Fine.", R"("input":[{"role":"user","content":"a"},
      {"role":"assistant","content":"b"},{"role":"user","content":"c"}])");
  const std::string path = "/v1/responses/" + response.json()["id"].get<std::string>();
  EXPECT_EQ(client_.Get(path).body, response.body);
  const Json items = client_.Get(path + "/input_items?limit=2").json();
  ASSERT_EQ(items["data"].size(), 2u) << items;
  EXPECT_EQ(items["has_more"], true);
  EXPECT_EQ(items["data"][0]["content"][0]["text"], "c");  // the newest first
  EXPECT_EQ(items["last_id"], items["data"][1]["id"]);
  const Json rest =
      client_.Get(path + "/input_items?after=" + items["last_id"].get<std::string>()).json();
  ASSERT_EQ(rest["data"].size(), 1u);
  EXPECT_EQ(rest["has_more"], false);
  const Json ascending = client_.Get(path + "/input_items?order=asc").json();
  EXPECT_EQ(ascending["data"][0], rest["data"][0]);
  for (const char* bad : {"?limit=0", "?limit=x", "?order=up", "?after=x", "?what=1"}) {
    EXPECT_EQ(client_.Get(path + "/input_items" + bad).status, 400) << bad;
  }
  EXPECT_EQ(client_.Get(path + "?stream=true").status, 400);
  EXPECT_EQ(client_.Post(path, "{}").status, 405);
  EXPECT_EQ(Delete("/v1/models").status, 405);
  EXPECT_EQ(Delete(path).json()["deleted"], true);
  EXPECT_EQ(client_.Get(path).status, 404);
  EXPECT_EQ(Delete(path).status, 404);
  EXPECT_EQ(client_.Get("/v1/responses/").status, 404);
}

TEST_F(ResponsesTest, WhatIsNotToBeStoredIsNot) {
  const Json response = Ask("x", R"("input":"a","store":false)").json();
  EXPECT_EQ(response["store"], false);
  EXPECT_EQ(client_.Get("/v1/responses/" + response["id"].get<std::string>()).status, 404);
}

TEST_F(ResponsesTest, AnAnswerCutOffSaysSo) {
  const Json response = Ask("one two three four", R"("input":"a","max_output_tokens":2)").json();
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
  const std::vector<std::string> events =
      Ask("one two three four", R"("input":"a","max_output_tokens":2,"stream":true)").events();
  EXPECT_EQ(ParseJson(events.back()).value()["type"], "response.incomplete");
}

TEST_F(ResponsesTest, LogprobsAreWithTheText) {
  const std::string fields =
      R"("input":"a","include":["message.output_text.logprobs"],"top_logprobs":1)";
  const Json part = Ask("one two", fields).json()["output"][0]["content"][0];
  ASSERT_FALSE(part["logprobs"].empty());
  std::string text;
  for (const Json& token : part["logprobs"]) text += token["token"];
  EXPECT_EQ(text, part["text"]);
  Json streamed = Json::array();
  for (const std::string& data : Ask("one two", fields + R"(,"stream":true)").events()) {
    const Json event = ParseJson(data).value();
    if (event["type"] != "response.output_text.delta") continue;
    for (const Json& token : event["logprobs"]) streamed.push_back(token);
  }
  EXPECT_EQ(streamed, part["logprobs"]);
}

TEST_F(ResponsesTest, AStreamThatFailsSaysSo) {
  // A failure that comes before the first event was sent would be the answer's status.
  server_.generator.set_tick(std::chrono::milliseconds(2));
  const std::string body = R"({"model":"demo","input":"a","max_output_tokens":1000,"stream":true})";
  client_.Send(
      "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  std::string seen;
  const auto read_until = [&](const std::string& end) {
    while (seen.find(end) == std::string::npos) {
      const std::string more = client_.ReceiveSome();
      ASSERT_NE(more, "") << seen;
      seen += more;
    }
  };
  read_until("response.output_text.delta");
  server_.generator.set_fail_after(FakeGenerator::kFailNow);
  read_until("\r\n0\r\n\r\n");
  EXPECT_TRUE(seen.starts_with("HTTP/1.1 200"));
  const size_t begin = seen.rfind("data: ") + std::string("data: ").size();
  const Json last = ParseJson(seen.substr(begin, seen.find('\n', begin) - begin)).value();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["status"], "failed");
  EXPECT_EQ(last["response"]["error"]["code"], "server_error");
}

TEST_F(ResponsesTest, ACallThatIsNoneStaysTextOrEndsIncomplete) {
  const std::string broken =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": }}\n</tool_call>";
  const Json whole = Ask(broken, std::string(R"("input":"a")") + kFlatTools).json();
  ASSERT_EQ(whole["output"].size(), 1u) << whole;
  EXPECT_THAT(whole["output"][0]["content"][0]["text"].get<std::string>(), HasSubstr("weather"));
  const std::vector<std::string> events =
      Ask(broken, std::string(R"("input":"a","stream":true)") + kFlatTools).events();
  const Json last = ParseJson(events.back()).value();
  EXPECT_EQ(last["type"], "response.completed");
  const Json& item = last["response"]["output"][0];
  EXPECT_EQ(item["type"], "function_call");
  EXPECT_EQ(item["status"], "incomplete");
}

TEST(ResponsesKeysTest, TenantsAndKeysSeeTheirOwn) {
  TestServer server({.api_keys_json = R"([
      {"key":"a","tenant":"a","adapters":["*"]},{"key":"b","tenant":"b","adapters":["*"]},
      {"key":"a2","tenant":"a","adapters":["austen"]}])"});
  RawClient client(server.port());
  const std::string as_a = "Authorization: Bearer a\r\n";
  const Json response =
      client.Post("/v1/responses", R"({"model":"demo","input":"x","max_output_tokens":2})", as_a)
          .json();
  ASSERT_TRUE(response.contains("id")) << response;
  const std::string id = response["id"];
  EXPECT_EQ(client.Get("/v1/responses/" + id, as_a).status, 200);
  EXPECT_EQ(client.Get("/v1/responses/" + id, "Authorization: Bearer b\r\n").status, 404);
  // A key of the same tenant, for which the model does not exist.
  EXPECT_EQ(client.Get("/v1/responses/" + id, "Authorization: Bearer a2\r\n").status, 404);
  EXPECT_EQ(client.Get("/v1/responses/" + id).status, 401);
  const RawResponse other = client.Post(
      "/v1/responses", R"({"model":"demo","input":"x","previous_response_id":")" + id + "\"}",
      "Authorization: Bearer b\r\n");
  EXPECT_EQ(other.status, 400);
}

TEST(ResponsesKeysTest, AStoreThatIsOffIsSaid) {
  ServerOptions options;
  options.responses.tenant_responses_max = 0;
  TestServer server(options);
  RawClient client(server.port());
  const std::string head = R"({"model":"demo","input":"x","max_output_tokens":2)";
  EXPECT_EQ(client.Post("/v1/responses", head + "}").json()["store"], false);
  const RawResponse refused = client.Post("/v1/responses", head + R"(,"store":true})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("--responses-stored-max"));
}

}  // namespace
}  // namespace graft
