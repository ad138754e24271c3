// Calls and reasoning over HTTP: the model's text is a script, all else is real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/server_testing.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

constexpr char kTemplate[] =
    "{% if tools %}{{ tools | tojson }}\n{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }} "
    "{{ c.function.arguments.city }}</tool_call>{% endfor %}"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "<|end|>{% endfor %}<|assistant|>";

constexpr char kTools[] =
    R"("tools":[{"type":"function","function":{"name":"weather","parameters":
       {"type":"object","properties":{"city":{"type":"string"}}}}}])";

constexpr char kCalls[] =
    "<think>\nI look it up.\n</think>\n\nOne moment.\n"
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\"}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>";

class ToolCallsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.start_status.ok()); }

  RawResponse Chat(const std::string& answer, const std::string& fields) {
    server_.generator.set_answers({answer});
    return client_.Post(
        "/v1/chat/completions",
        R"({"model":"demo","messages":[{"role":"user","content":"weather?"}],)" + fields + "}");
  }

  const ChatTemplate chat_template_ = ChatTemplate::Parse(kTemplate).value();
  TestServer server_{ServerOptions(), &chat_template_};
  RawClient client_{server_.port()};
};

TEST_F(ToolCallsTest, AnAnswerIsTakenApart) {
  const Json choice = Chat(kCalls, kTools).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const Json& message = choice["message"];
  EXPECT_EQ(message["reasoning_content"], "I look it up.");
  EXPECT_EQ(message["content"], "One moment.");
  ASSERT_EQ(message["tool_calls"].size(), 2u) << message;
  const Json& call = message["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "weather");
  EXPECT_EQ(call["function"]["arguments"], "{\"city\": \"Zürich\"}");
  EXPECT_NE(call["id"], message["tool_calls"][1]["id"]);
  const std::string prompt =
      DemoTokenizer().Decode(server_.generator.submitted().at(0).prompt_tokens, false);
  EXPECT_THAT(prompt, HasSubstr(R"([{"type": "function", "function": {"name": "weather")"));
}

TEST_F(ToolCallsTest, AStreamSaysTheSame) {
  const RawResponse response = Chat(kCalls, std::string(kTools) + R"(,"stream":true)");
  std::string content, reasoning, finish;
  std::vector<Json> calls;
  for (const std::string& event : response.events()) {
    if (event == "[DONE]") continue;
    const Result<Json> json = ParseJson(event);
    ASSERT_TRUE(json.ok()) << event;
    const Json& choice = (*json)["choices"][0];
    if (choice["finish_reason"].is_string()) finish = choice["finish_reason"];
    const Json& delta = choice["delta"];
    content += delta.value("content", "");
    reasoning += delta.value("reasoning_content", "");
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      const auto idx = call["index"].get<size_t>();
      if (idx == calls.size()) {
        calls.push_back(call);
      } else {
        ASSERT_EQ(idx + 1, calls.size());
        EXPECT_FALSE(call.contains("id"));
        calls.back()["function"]["arguments"] =
            calls.back()["function"]["arguments"].get<std::string>() +
            call["function"]["arguments"].get<std::string>();
      }
    }
  }
  EXPECT_EQ(content, "One moment.");
  EXPECT_EQ(reasoning, "I look it up.");
  EXPECT_EQ(finish, "tool_calls");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["function"]["arguments"], "{\"city\": \"Zürich\"}");
  EXPECT_EQ(calls[1]["function"]["arguments"], "{}");
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
}

TEST_F(ToolCallsTest, OneCallAloneWhereTheClientWantsNoMore) {
  const Json choice = Chat(kCalls, std::string(kTools) +
                                       R"(,"parallel_tool_calls":false,"include_reasoning":false)")
                          .json()["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_FALSE(choice["message"].contains("reasoning_content"));
}

TEST_F(ToolCallsTest, WithoutToolsCallsAreText) {
  for (const std::string fields : {R"("max_tokens":500)", R"("tool_choice":"none",)"}) {
    const bool has_tools = fields.ends_with(",");
    const Json choice = Chat(kCalls, fields + (has_tools ? kTools : "")).json()["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_FALSE(choice["message"].contains("tool_calls"));
    EXPECT_THAT(choice["message"]["content"].get<std::string>(), HasSubstr("<tool_call>\n{"));
  }
}

TEST_F(ToolCallsTest, AnAnswerCutOffSaysSo) {
  const Json choice =
      Chat(kCalls, std::string(kTools) + R"(,"max_tokens":30)").json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_FALSE(choice["message"].contains("tool_calls")) << choice;
}

TEST_F(ToolCallsTest, LogprobsAreThoseOfAllTokens) {
  const Json body =
      Chat(kCalls, std::string(kTools) + R"(,"logprobs":true,"top_logprobs":1)").json();
  EXPECT_EQ(static_cast<int64_t>(body["choices"][0]["logprobs"]["content"].size()) + 1,
            body["usage"]["completion_tokens"].get<int64_t>());  // all but the end
}

TEST_F(ToolCallsTest, AConversationGoesOnWithTheResult) {
  server_.generator.set_answers({"Sunny."});
  const RawResponse response = client_.Post("/v1/chat/completions", R"({"model":"demo","messages":[
      {"role":"user","content":"weather?"},
      {"role":"assistant","content":null,"reasoning_content":"hm",
       "tool_calls":[{"id":"c","type":"function",
                      "function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]},
      {"role":"tool","tool_call_id":"c","content":"22 degrees"}]})");
  EXPECT_EQ(response.json()["choices"][0]["message"]["content"], "Sunny.");
  const std::string prompt =
      DemoTokenizer().Decode(server_.generator.submitted().at(0).prompt_tokens, false);
  EXPECT_THAT(prompt, HasSubstr("<tool_call>weather Bern</tool_call><think>hm</think>"));
  EXPECT_THAT(prompt, HasSubstr("22 degrees"));
}

TEST(ToolPromptTest, TemplatesThatPutTextsTogetherGetArgumentsAsTexts) {
  const ChatTemplate chat_template =
      ChatTemplate::Parse(
          "{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
          "{{ '[TOOL_CALLS]' + c.function.arguments }}{% endfor %}{% endfor %}")
          .value();
  TestServer server(ServerOptions(), &chat_template);
  server.generator.set_answers({"[TOOL_CALLS]f[ARGS]{\"x\": 1}"});
  RawClient client(server.port());
  const Json body = client
                        .Post("/v1/chat/completions", R"({"model":"demo",
      "tools":[{"type":"function","function":{"name":"f"}}],"messages":[
      {"role":"user","content":"go"},
      {"role":"assistant","tool_calls":[
          {"function":{"name":"f","arguments":"{\"b\":1, \"a\": 2}"}}]}]})")
                        .json();
  // Mistral's templates take ids of nine letters and digits alone.
  EXPECT_EQ(body["choices"][0]["message"]["tool_calls"][0]["id"].get<std::string>().size(), 9u);
  const std::string prompt =
      DemoTokenizer().Decode(server.generator.submitted().at(0).prompt_tokens, false);
  EXPECT_THAT(prompt, HasSubstr("[TOOL_CALLS]{\"b\":1, \"a\": 2}"));
}

TEST(ToolPromptTest, TemplatesThatAddToContentsGetTexts) {
  const ChatTemplate chat_template =
      ChatTemplate::Parse(
          "{% for m in messages %}{{ '<' + m.content + '>' }}"
          "{% for c in m.tool_calls or [] %}{{ c.function.arguments.b }}"
          "{% endfor %}{% endfor %}")
          .value();
  TestServer server(ServerOptions(), &chat_template);
  RawClient client(server.port());
  client.Post("/v1/chat/completions", R"({"model":"demo","max_tokens":1,"messages":[
      {"role":"user","content":"go"},
      {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"b\":1}"}}]}]})");
  ASSERT_EQ(server.generator.submitted().size(), 1u);
  EXPECT_EQ(DemoTokenizer().Decode(server.generator.submitted()[0].prompt_tokens, false),
            "<go><>1");
}

TEST(ToolPromptTest, APromptThatOpensTheReasoningIsGoneOnWith) {
  const ChatTemplate chat_template =
      ChatTemplate::Parse("{{ messages[0].content }}<think>\n").value();
  TestServer server(ServerOptions(), &chat_template);
  server.generator.set_answers({"why\n</think>\nbecause"});
  RawClient client(server.port());
  const Json message = client
                           .Post("/v1/chat/completions",
                                 R"({"model":"demo","messages":[{"role":"user","content":"q"}]})")
                           .json()["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "why");
  EXPECT_EQ(message["content"], "because");
}

}  // namespace
}  // namespace graft
