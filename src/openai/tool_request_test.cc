// What chat requests say of tools, and conversations with calls in them.
#include <gtest/gtest.h>

#include "base/file.h"
#include "openai/openai_request.h"

namespace graft {
namespace {

ApiResult<ChatRequest> Parse(const std::string& messages, const std::string& fields = "") {
  const Result<Json> body = ParseJson(R"({"model":"m","messages":)" + messages + fields + "}");
  EXPECT_TRUE(body.ok()) << body.status().ToString();
  return ParseChatRequest(*body, RequestLimits());
}

ApiResult<ChatRequest> WithFields(const std::string& fields) {
  return Parse(R"([{"role":"user","content":"x"}])", "," + fields);
}

// One tool of this name, with this schema of its parameters.
std::string Tool(const std::string& name, const std::string& parameters = "{}") {
  return R"({"type":"function","function":{"name":")" + name + R"(","parameters":)" + parameters +
         "}}";
}

void ExpectToolsRefused(const std::string& fields, const std::string& param,
                        const std::string& part) {
  const auto request = WithFields(fields);
  ASSERT_FALSE(request.ok()) << fields;
  EXPECT_EQ(request.error().param, param) << request.error().message;
  EXPECT_NE(request.error().message.find(part), std::string::npos) << request.error().message;
}

TEST(ToolRequestTest, ToolsAreRead) {
  auto request =
      WithFields(R"("parallel_tool_calls":false,"tools":[)" +
                 Tool("f", R"({"type":"object","properties":{"type":{"type":"string"}}})") +
                 R"(,{"type":"function","function":{"name":"a.b-c","strict":true}}])");
  ASSERT_TRUE(request.ok()) << request.error().message;
  ASSERT_EQ(request->tools.tools.size(), 2u);
  EXPECT_EQ(request->tools.tools[0].parameters["properties"].size(), 1u);
  EXPECT_EQ(request->tools.tools[1].name, "a.b-c");
  EXPECT_TRUE(request->tools.may_call);
  EXPECT_TRUE(request->tools.has_one_call);
  EXPECT_FALSE(WithFields(R"("tool_choice":"none","tools":[])")->tools.may_call);
}

TEST(ToolRequestTest, WhatCannotWorkIsRefusedByName) {
  ExpectToolsRefused(R"("tools":{})", "tools", "must be a list");
  ExpectToolsRefused(R"("tools":[2])", "tools[0]", "must be a JSON object");
  ExpectToolsRefused(R"("tools":[{"type":"web_search"}])", "tools[0].type", "must be 'function'");
  ExpectToolsRefused(R"("tools":[{"type":"function"}])", "tools[0].function", "is required");
  ExpectToolsRefused(R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name",
                     "is required");
  ExpectToolsRefused(R"("tools":[{"type":"function","function":{"name":"f"},"stric":true}])",
                     "tools[0].stric", "Unrecognized");
  ExpectToolsRefused(R"("tool_choice":"any")", "tool_choice", "must be \"auto\", \"none\"");
  ExpectToolsRefused(R"("tool_choice":"required")", "tool_choice", "there are no tools");
  ExpectToolsRefused(
      R"("tool_choice":{"type":"function","function":{"name":"g"}},"tools":[)" + Tool("f") + "]",
      "tool_choice", "names no function of 'tools': 'g'");
  ExpectToolsRefused(R"("tool_choice":{"type":"function"},"tools":[)" + Tool("f") + "]",
                     "tool_choice.function", "is required");
  ExpectToolsRefused(R"("min_tokens":3,"tool_choice":"required","tools":[)" + Tool("f") + "]",
                     "min_tokens", "put together with 'tool_choice'");
}

TEST(ToolRequestTest, ACallMayBeAskedFor) {
  auto any = WithFields(R"("tool_choice":"required","tools":[)" + Tool("f") + "]");
  EXPECT_TRUE(any->tools.must_call && any->tools.named.empty() && !any->tools.has_one_call);
  auto one = WithFields(R"("tool_choice":{"type":"function","function":{"name":"f"}},"tools":[)" +
                        Tool("f") + "]");
  EXPECT_TRUE(one->tools.must_call && one->tools.has_one_call);
  EXPECT_EQ(one->tools.named, "f");
}

// Nothing binds a call to them: the model is shown them as they are. Servers of tools write much
// that is no JSON Schema, and one tool's must not cost the whole request.
TEST(ToolRequestTest, OddSchemasAndNamesAreShown) {
  for (const char* schema :
       {R"({"type":"any"})", R"({"type":"OBJECT","properties":{"a":{"type":"STRING"}}})", "[]",
        R"("{}")", "null", R"({"properties":null,"required":null})", R"({"items":null})",
        R"({"type":["string","any"]})", R"({"properties":[1]})", "true"}) {
    auto request = WithFields("\"tools\":[" + Tool("f", schema) + "," + Tool("g") + "]");
    ASSERT_TRUE(request.ok()) << schema << ": " << request.error().message;
    EXPECT_EQ(request->tools.tools.size(), 2u);
  }
  EXPECT_TRUE(WithFields("\"tools\":[" + Tool("f") + "," + Tool("f") + "]").ok());
  EXPECT_TRUE(WithFields("\"tools\":[" + Tool("a \\\"b") + "]").ok());
}

TEST(ToolRequestTest, HintsToServersAreNotShown) {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":"x"}],"tools":[
      {"type":"function","cache_control":{"type":"ephemeral"},"metadata":{},"function":{
       "name":"f","cache_control":{"type":"ephemeral"},"strict":null,"x-more":1}}]})";
  auto request = ParseChatRequest(ParseJson(body).value(), RequestLimits());
  ASSERT_TRUE(request.ok()) << request.error().message;
  UseOrderOf(body, &*request);
  EXPECT_EQ(request->shown_tools.dump(),
            R"([{"type":"function","function":{"name":"f","strict":null,"x-more":1}}])");
}

TEST(ToolRequestTest, RealSchemasAreRead) {
  const char* dir = std::getenv("GRAFT_SOURCE_DIR");
  const std::string folder =
      std::string(dir == nullptr ? "." : dir) + "/../shared/conformance/tool_schemas/";
  if (!FileExists(folder)) GTEST_SKIP() << "no ../shared/conformance";
  const auto request_of = [](const Json& function) {
    Json plain = function;
    plain.erase("reason");
    plain.erase("source");
    return WithFields("\"tools\":[" + DumpJson({{"type", "function"}, {"function", plain}}) + "]");
  };
  const Result<Json> good = ParseJsonFile(folder + "bfcl_tools.json");
  ASSERT_TRUE(good.ok()) << good.status().ToString();
  EXPECT_EQ(good->size(), 500u);
  for (const Json& function : *good) {
    const auto request = request_of(function);
    ASSERT_TRUE(request.ok()) << request.error().message;
  }
  const Result<Json> bad = ParseJsonFile(folder + "bfcl_unnormalised.json");
  ASSERT_TRUE(bad.ok()) << bad.status().ToString();
  EXPECT_EQ(bad->size(), 49u);
  for (const Json& function : *bad) {
    const auto request =
        request_of(function.contains("function") ? function["function"] : function);
    EXPECT_TRUE(request.ok()) << function;
  }
}

TEST(ToolRequestTest, ConversationsWithCallsBecomeWhatTemplatesExpect) {
  auto request = Parse(R"([
    {"role":"user","content":"weather?"},
    {"role":"assistant","content":null,"refusal":null,"annotations":[],"reasoning_content":"look",
     "tool_calls":[{"id":"c1","type":"function","index":0,
                    "function":{"name":"f","arguments":"{\"b\": 1, \"a\": [2.0]}"}},
                   {"id":"c2","function":{"name":"g","arguments":""}},
                   {"id":"c3","function":{"name":"h","arguments":"{broken"}}]},
    {"role":"tool","tool_call_id":"c1","name":"f","content":[{"type":"text","text":"7"}]}])");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(
      request->messages.list.dump(),
      R"([{"role":"user","content":"weather?"},)"
      R"({"role":"assistant","content":null,"reasoning_content":"look","tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"f","arguments":{"b":1,"a":[2.0]}}},)"
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":{}}},)"
      R"({"id":"c3","type":"function","function":{"name":"h","arguments":"{broken"}}]},)"
      R"({"role":"tool","content":"7","name":"f","tool_call_id":"c1"}])");
  UseArgumentTexts(&request->messages);
  const OrderedJson& calls = request->messages.list[1]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"], "{\"b\": 1, \"a\": [2.0]}");
  EXPECT_EQ(calls[1]["function"]["arguments"], "");
}

TEST(ToolRequestTest, WrongCallsAreRefusedByPath) {
  const auto param = [](const std::string& messages) {
    const auto request = Parse("[" + messages + "]");
    return request.ok() ? "" : request.error().param;
  };
  EXPECT_EQ(param(R"({"role":"user","content":"x","tool_calls":[{}]})"), "messages[0].tool_calls");
  EXPECT_EQ(param(R"({"role":"user","content":"x","tool_call_id":"c"})"),
            "messages[0].tool_call_id");
  EXPECT_EQ(param(R"({"role":"tool","tool_call_id":"c"})"), "messages[0].content");
  EXPECT_EQ(param(R"({"role":"assistant","tool_calls":[{"type":"x"}]})"),
            "messages[0].tool_calls[0].type");
  EXPECT_EQ(param(R"({"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]})"),
            "messages[0].tool_calls[0].function.name");
  EXPECT_EQ(param(R"({"role":"assistant","tool_calls":[
                       {"function":{"name":"f","arguments":[1]}}]})"),
            "messages[0].tool_calls[0].function.arguments");
}

}  // namespace
}  // namespace graft
