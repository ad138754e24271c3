#include "openai/responses/responses_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "openai/responses/conversation.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

ApiResult<ResponsesRequest> ParseResponse(const std::string& body) {
  return ParseResponsesRequest(ParseJson(body).value(), body, RequestLimits{});
}

ApiResult<ResponsesRequest> ResponseWith(const std::string& fields) {
  return ParseResponse(R"({"model":"m","input":"hi")" + (fields.empty() ? "" : "," + fields) + "}");
}

void ExpectResponseRefused(const std::string& fields, const std::string& param,
                           const std::string& part = "") {
  const auto request = ResponseWith(fields);
  ASSERT_FALSE(request.ok()) << fields;
  EXPECT_EQ(request.error().param, param) << request.error().message;
  EXPECT_THAT(request.error().message, HasSubstr(part));
}

void ExpectInputRefused(const std::string& items, const std::string& param,
                        const std::string& part = "") {
  const auto request = ParseResponse(R"({"model":"m","input":)" + items + "}");
  ASSERT_FALSE(request.ok()) << items;
  EXPECT_EQ(request.error().param, param) << request.error().message;
  EXPECT_THAT(request.error().message, HasSubstr(part));
}

// The messages of these items, or the error's field.
OrderedJson MessagesOf(const std::string& items) {
  auto request = ParseResponse(R"({"model":"m","input":)" + items + "}");
  if (!request.ok()) return request.error().message;
  ConversationReader reader(&request->chat.messages);
  for (size_t i = 0; i < request->input.size(); ++i) {
    if (auto error = reader.Add(request->input[i], "input[" + std::to_string(i) + "].")) {
      return error->param;
    }
  }
  return request->chat.messages.list;
}

TEST(ResponsesRequestTest, DefaultsAreOpenAIs) {
  auto request = ResponseWith("");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->chat.params.model, "m");
  EXPECT_FALSE(request->store.has_value());
  EXPECT_FALSE(request->chat.params.stream);
  EXPECT_FALSE(request->chat.params.logprobs);
  ASSERT_EQ(request->input.size(), 1u);
  const Json& item = request->input[0];
  EXPECT_EQ(item["type"], "message");
  EXPECT_EQ(item["role"], "user");
  EXPECT_EQ(item["content"], Json::parse(R"([{"type":"input_text","text":"hi"}])"));
  EXPECT_THAT(item["id"].get<std::string>(), HasSubstr("msg_"));
}

TEST(ResponsesRequestTest, EveryFieldArrives) {
  auto request =
      ResponseWith(R"("instructions":"be brief","previous_response_id":"resp_1","store":false,
      "metadata":{"a":"b"},"max_output_tokens":7,"stream":true,
      "stream_options":{"include_obfuscation":false},
      "include":["message.output_text.logprobs","reasoning.encrypted_content"],"top_logprobs":3,
      "temperature":0.7,"top_p":0.5,"seed":3,"stop":["x"],"parallel_tool_calls":false,
      "tools":[{"type":"function","name":"f","strict":true,
                "parameters":{"type":"object","properties":{"z":{},"a":{}}}}],
      "reasoning":{"effort":"low","summary":"auto"},
      "text":{"format":{"type":"text"},"verbosity":"medium"},"truncation":"disabled",
      "user":"u","service_tier":"auto","prompt_cache_key":"k","background":false)");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const GenerationParams& params = request->chat.params;
  EXPECT_EQ(request->instructions, "be brief");
  EXPECT_EQ(request->previous_response_id, "resp_1");
  EXPECT_EQ(request->store, false);
  EXPECT_EQ(params.tokens_max, 7);
  EXPECT_TRUE(params.stream && params.logprobs);
  EXPECT_EQ(params.sampling.num_logprobs, 3);
  EXPECT_EQ(params.seed, 3u);
  EXPECT_EQ(params.stop, std::vector<std::string>{"x"});
  EXPECT_TRUE(request->chat.tools.has_one_call);
  ASSERT_EQ(request->chat.tools.tools.size(), 1u);
  EXPECT_EQ(request->chat.tools.tools[0].name, "f");
  EXPECT_EQ(request->chat.reasoning_effort, "low");
  // Templates are shown tools as chats have them, keys in the client's order.
  EXPECT_EQ(request->chat.shown_tools.dump(),
            R"([{"type":"function","function":{"name":"f","strict":true,"parameters":)"
            R"({"type":"object","properties":{"z":{},"a":{}}}}}])");
  const Json repeated = Json::parse("{" + RepeatedFields(*request, true) + "}");
  EXPECT_EQ(repeated["tools"][0]["name"], "f");
  EXPECT_EQ(repeated["store"], true);
  EXPECT_EQ(repeated["temperature"].dump(), "0.7");
  EXPECT_EQ(repeated["metadata"]["a"], "b");
  EXPECT_EQ(repeated["max_output_tokens"], 7);
  EXPECT_EQ(repeated["reasoning"]["effort"], "low");
}

TEST(ResponsesRequestTest, MetadataIsLimitedByCharacters) {
  const auto with = [](const std::string& key, const std::string& value) {
    return ResponseWith("\"metadata\":" + Json({{key, value}}).dump());
  };
  const auto repeated = [](size_t times) {
    std::string text;
    for (size_t i = 0; i < times; ++i) text += "é";
    return text;
  };
  EXPECT_TRUE(with(repeated(64), repeated(512)).ok());
  EXPECT_EQ(with("k", std::string(513, 'v')).error().param, "metadata.k");
  EXPECT_EQ(with(repeated(65), "v").error().param, "metadata." + repeated(40)) << "80 bytes";
}

TEST(ResponsesRequestTest, FormsOfAnswersAreReadAndRepeated) {
  const std::string format =
      R"({"type":"json_schema","name":"port","strict":true,)"
      R"("schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"null"}}}})";
  auto request = ResponseWith(R"("text":{"format":)" + format + "}");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const AnswerFormat& answer = request->chat.params.answer;
  EXPECT_EQ(answer.kind, AnswerFormat::Kind::kSchema);
  EXPECT_EQ(answer.param, "text.format.schema");
  EXPECT_EQ(answer.schema["properties"].dump(), R"({"z":{"type":"string"},"a":{"type":"null"}})")
      << "in the client's order";
  const Json repeated = ParseJson("{" + RepeatedFields(*request, true) + "}").value();
  EXPECT_EQ(repeated["text"]["format"], Json::parse(format));

  request = ResponseWith(R"("text":{"format":{"type":"json_object"}})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->chat.params.answer.kind, AnswerFormat::Kind::kJsonObject);
  request = ResponseWith(R"("text":{"format":{"type":"text"}})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_TRUE(request->chat.params.answer.is_text());

  ExpectResponseRefused(R"("text":{"format":{"type":"json_schema","schema":{}}})",
                        "text.format.name", "is required");
  ExpectResponseRefused(R"("text":{"format":{"type":"json_schema","name":"x"}})",
                        "text.format.schema", "is required");
  ExpectResponseRefused(R"("text":{"format":{"type":"text","regex":"a"}})", "text.format.regex");
  ExpectResponseRefused(R"("min_tokens":2,"text":{"format":{"type":"json_object"}})", "min_tokens",
                        "'text.format.type'");
  ExpectResponseRefused(R"("ignore_eos":true,"tool_choice":"required","tools":[{"type":"function",
      "name":"f","parameters":{}}])",
                        "ignore_eos", "'tool_choice'");
}

TEST(ResponsesRequestTest, MistakesAreNamed) {
  ExpectResponseRefused(R"("background":true)", "background", "is not supported");
  ExpectResponseRefused(R"("conversation":"conv_1")", "conversation");
  ExpectResponseRefused(R"("truncation":"auto")", "truncation", "other than \"disabled\"");
  ExpectResponseRefused(R"("max_output_tokens":0)", "max_output_tokens");
  ExpectResponseRefused(R"("top_logprobs":2)", "top_logprobs", "in include");
  ExpectResponseRefused(R"("include":["x"])", "include[0]");
  EXPECT_TRUE(ResponseWith(R"("stream_options":{})").ok()) << "nothing is streamed";
  ExpectResponseRefused(R"("metadata":{"a":1})", "metadata.a");
  ExpectResponseRefused(R"("reasoning":{"summary":"detailed"})", "reasoning.summary");
  ExpectResponseRefused(R"("text":{"verbosity":"low"})", "text.verbosity");
  ExpectResponseRefused(R"("text":{"format":{"type":"grammar"}})", "text.format.type");
  ExpectResponseRefused(R"("tools":[{"type":"web_search"}])", "tools[0].type",
                        "must be 'function'");
  ExpectResponseRefused(R"("tools":[{"type":"function","parameters":{}}])", "tools[0].name");
  EXPECT_TRUE(
      ResponseWith(R"("tools":[{"type":"function","name":"f","parameters":{"type":"dict"}}])").ok())
      << "nothing binds a call to it";
  ExpectResponseRefused(R"("max_tokens":3)", "max_tokens", "did you mean");
  ExpectResponseRefused(R"("messages":[3])", "messages", "Unrecognized");
}

TEST(ResponsesRequestTest, MistakesInItemsAreNamed) {
  ExpectInputRefused("[]", "input");
  ExpectInputRefused("3", "input");
  ExpectInputRefused("[3]", "input[0]", "must be a JSON object");
  ExpectInputRefused(R"([{"role":"tool","content":"x"}])", "input[0].role");
  ExpectInputRefused(R"([{"role":"user"}])", "input[0].content", "is required");
  ExpectInputRefused(R"([{"type":"item_reference","id":"x"}])", "input[0].type");
  ExpectInputRefused(R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
                     "input[0].content[0].type", "'input_image'");
  ExpectInputRefused(R"([{"role":"user","content":[{"type":"input_text"}]}])",
                     "input[0].content[0].text");
  ExpectInputRefused(R"([{"role":"user","content":"x","name":"n"}])", "input[0].name");
  ExpectInputRefused(R"([{"type":"function_call","name":"f","arguments":"{}"}])",
                     "input[0].call_id");
  ExpectInputRefused(R"([{"type":"function_call_output","call_id":"c"}])", "input[0].output");
  ExpectInputRefused(R"([{"type":"reasoning","encrypted_content":"abc"}])",
                     "input[0].encrypted_content");
}

// Clients send items back with what they have read out of them.
TEST(ConversationReaderTest, FieldsOfEarlierAnswersAreDropped) {
  EXPECT_EQ(MessagesOf(R"([
      {"role":"user","content":"q"},
      {"type":"message","role":"assistant","parsed":{"a":1},
       "content":[{"type":"output_text","text":"a","parsed":{"a":1}}]},
      {"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},
      {"type":"function_call","call_id":"c","name":"f","arguments":{"x":1},
       "parsed_arguments":{"x":1}},
      {"type":"function_call_output","call_id":"c","output":"one","is_error":false}])"),
            OrderedJson::parse(R"([
      {"role":"user","content":"q"},
      {"role":"assistant","content":"a"},
      {"role":"assistant","content":"no","tool_calls":[
        {"id":"c","type":"function","function":{"name":"f","arguments":{"x":1}}}]},
      {"role":"tool","content":"one","name":"f","tool_call_id":"c"}])"));
}

TEST(ResponsesRequestTest, ArgumentsThatAreObjectsKeepTheirOrder) {
  const std::string body = R"({"model":"m","input":[{"role":"user","content":"q"},
      {"type":"function_call","call_id":"c","name":"f","arguments":{"b":1,"a":2}}]})";
  auto request = ParseResponsesRequest(ParseJson(body).value(), body, RequestLimits());
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->input[1]["arguments"], R"({"b":1,"a":2})");
}

TEST(ConversationReaderTest, OneTurnOfAnAssistantIsOneMessage) {
  EXPECT_EQ(MessagesOf(R"([
      {"role":"developer","content":"rules"},
      {"role":"user","content":[{"type":"input_text","text":"a","id":"lc_1","extras":{}},
                                {"type":"input_text","text":"b","cache_control":{}}]},
      {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
      {"type":"message","role":"assistant","status":"completed","id":"msg_1",
       "content":[{"type":"output_text","text":"wait","annotations":[],"logprobs":[]}]},
      {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"y\":1,\"x\":2}"},
      {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
      {"type":"function_call_output","call_id":"c1","output":"one"},
      {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"}]},
      {"role":"assistant","content":"done"}])"),
            OrderedJson::parse(R"([
      {"role":"system","content":"rules"},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":"wait","reasoning_content":"hm","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"f","arguments":{"y":1,"x":2}}},
        {"id":"c2","type":"function","function":{"name":"g","arguments":{}}}]},
      {"role":"tool","content":"one","name":"f","tool_call_id":"c1"},
      {"role":"tool","content":"2","name":"g","tool_call_id":"c2"},
      {"role":"assistant","content":"done"}])"));
}

TEST(ConversationReaderTest, ASummaryThatNoMessageShowsCounts) {
  const std::string text(100, 'x');
  const auto bytes_fit = [&](const std::string& content, int64_t bytes_max) {
    const Json item = {{"type", "reasoning"},
                       {"summary", {{{"type", "summary_text"}, {"text", text}}}},
                       {"content", content}};
    ChatMessages messages;
    EXPECT_FALSE(ConversationReader(&messages).Add(item, "").has_value());
    RequestLimits limits;
    limits.prompt_bytes_max = bytes_max;
    return !CheckTextBytes(messages, limits).has_value();
  };
  EXPECT_TRUE(bytes_fit("", 100));
  EXPECT_FALSE(bytes_fit("", 99));
  EXPECT_TRUE(bytes_fit("hm", 102));
  EXPECT_FALSE(bytes_fit("hm", 101));
}

TEST(ConversationReaderTest, TextBehindACallIsOfTheSameMessage) {
  const OrderedJson messages = MessagesOf(R"([
      {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
      {"role":"assistant","content":"one"},
      {"role":"assistant","content":"two"}])");
  ASSERT_EQ(messages.size(), 2u) << messages.dump();
  EXPECT_EQ(messages[0]["content"], "one");
  EXPECT_EQ(messages[0]["tool_calls"].size(), 1u);
  EXPECT_EQ(messages[1]["content"], "two");
}

TEST(ConversationReaderTest, AnOutputWithoutItsCallIsRefused) {
  EXPECT_EQ(MessagesOf(R"([{"type":"function_call_output","call_id":"c","output":"x"}])"),
            "input[0].call_id");
}

}  // namespace
}  // namespace graft
