#include "openai/openai_request.h"

#include <gtest/gtest.h>

#include "base/nearest_names.h"
#include "http/field_reader.h"

namespace graft {
namespace {

ApiResult<CompletionRequest> Completion(const std::string& body) {
  return ParseCompletionRequest(ParseJson(body).value(), RequestLimits{});
}

ApiResult<ChatRequest> Chat(const std::string& body) {
  return ParseChatRequest(ParseJson(body).value(), RequestLimits{});
}

// A completion request with these extra fields must be refused, and the error must name `param`.
void ExpectRefused(const std::string& fields, const std::string& param,
                   const std::string& message_part = "") {
  const auto request = Completion(R"({"model":"m","prompt":"p",)" + fields + "}");
  ASSERT_FALSE(request.ok()) << fields;
  EXPECT_EQ(request.error().http_status, 400) << fields;
  EXPECT_EQ(request.error().param, param) << fields;
  EXPECT_NE(request.error().message.find(message_part), std::string::npos)
      << request.error().message;
}

void ExpectChatRefused(const std::string& body, const std::string& param) {
  const auto request = Chat(body);
  ASSERT_FALSE(request.ok()) << body;
  EXPECT_EQ(request.error().param, param) << body << ": " << request.error().message;
}

TEST(CompletionRequestTest, DefaultsAreOpenAIs) {
  auto request = Completion(R"({"model":"m","prompt":"hello"})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->params.model, "m");
  ASSERT_EQ(request->prompts.size(), 1u);
  EXPECT_EQ(std::get<std::string>(request->prompts[0]), "hello");
  EXPECT_FALSE(request->params.tokens_max.has_value());
  EXPECT_EQ(request->params.n, 1);
  EXPECT_EQ(request->params.sampling.temperature, 1.0f);
  EXPECT_EQ(request->params.sampling.num_logprobs, -1);
  EXPECT_FALSE(request->params.stream);
  EXPECT_FALSE(request->echo);
}

TEST(CompletionRequestTest, EveryFieldArrives) {
  auto request = Completion(R"({
    "model": "m", "prompt": [1, 2, 3], "max_tokens": 7, "n": 2, "best_of": 2, "echo": true,
    "logprobs": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05,
    "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": -0.2,
    "logit_bias": {"5": -100, "6": 2.5}, "seed": -3, "min_tokens": 2, "stop": ["a", "bb"],
    "stop_token_ids": [9], "ignore_eos": true, "include_stop_str_in_output": true,
    "skip_special_tokens": false, "add_special_tokens": false, "stream": true,
    "stream_options": {"include_usage": true}, "user": "u", "metadata": {"a": "b"},
    "store": false, "service_tier": "auto"})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const GenerationParams& params = request->params;
  EXPECT_EQ(std::get<std::vector<int32_t>>(request->prompts.at(0)),
            (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(params.tokens_max, 7);
  EXPECT_EQ(params.n, 2);
  EXPECT_TRUE(request->echo);
  EXPECT_TRUE(params.logprobs);
  EXPECT_EQ(params.sampling.num_logprobs, 3);
  EXPECT_TRUE(params.sampling.prompt_logprobs);
  EXPECT_EQ(params.sampling.temperature, 0.5f);
  EXPECT_EQ(params.sampling.top_p, 0.9f);
  EXPECT_EQ(params.sampling.top_k, 40);
  EXPECT_EQ(params.sampling.min_p, 0.05f);
  EXPECT_EQ(params.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(params.sampling.frequency_penalty, 0.2f);
  EXPECT_EQ(params.sampling.presence_penalty, -0.2f);
  ASSERT_EQ(params.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(params.sampling.logit_bias[0], std::make_pair(5, -100.0f));
  EXPECT_EQ(params.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(params.sampling.tokens_min, 2);
  EXPECT_EQ(params.stop, (std::vector<std::string>{"a", "bb"}));
  EXPECT_EQ(params.sampling.stop_token_ids, (std::vector<int32_t>{9}));
  EXPECT_TRUE(params.sampling.ignore_eos);
  EXPECT_TRUE(params.include_stop_text);
  EXPECT_FALSE(params.skip_special_tokens);
  EXPECT_EQ(params.add_special_tokens, false);
  EXPECT_TRUE(params.stream);
  EXPECT_TRUE(params.include_usage);
}

TEST(CompletionRequestTest, PromptsComeInFourShapes) {
  EXPECT_EQ(Completion(R"({"model":"m","prompt":["a","b"]})")->prompts.size(), 2u);
  EXPECT_EQ(Completion(R"({"model":"m","prompt":[[1],[2,3]]})")->prompts.size(), 2u);
  EXPECT_EQ(Completion(R"({"model":"m","prompt":[1,2.0]})")->prompts.size(), 1u);
  for (const char* bad : {"[]", "[[]]", "[1,\"a\"]", "[\"a\",1]", "[1.5]", "[-1]", "{}", "true",
                          "[4294967296]", "[[1,[2]]]"}) {
    const auto request = Completion(std::string(R"({"model":"m","prompt":)") + bad + "}");
    ASSERT_FALSE(request.ok()) << bad;
    EXPECT_TRUE(request.error().param.starts_with("prompt")) << request.error().param;
  }
  EXPECT_EQ(Completion(R"({"model":"m"})").error().param, "prompt");
  EXPECT_EQ(Completion(R"({"prompt":"p"})").error().param, "model");
}

TEST(CompletionRequestTest, LogprobsMayBeOffInChatsWay) {
  auto off = Completion(R"({"model":"m","prompt":"p","logprobs":false})");
  ASSERT_TRUE(off.ok()) << off.error().message;
  EXPECT_FALSE(off->params.logprobs);
  EXPECT_EQ(off->params.sampling.num_logprobs, -1);
  ExpectRefused(R"("logprobs":true)", "logprobs");
}

TEST(CompletionRequestTest, NullEqualsAbsence) {
  auto request = Completion(R"({"model":"m","prompt":"p","max_tokens":null,"stop":null,
    "logprobs":null,"stream":null,"stream_options":null,"logit_bias":null,"seed":null,
    "suffix":null,"best_of":null,"temperature":null,"unknown":null,"nonsense":1})");
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().param, "nonsense");  // the nulls before it were accepted
}

TEST(CompletionRequestTest, WrongTypesNameTheFieldAndTheType) {
  ExpectRefused(R"("temperature":"hot")", "temperature", "must be a number");
  ExpectRefused(R"("max_tokens":1.5)", "max_tokens", "integer");
  ExpectRefused(R"("max_tokens":-2)", "max_tokens", "between -1");
  ExpectRefused(R"("max_tokens":1e300)", "max_tokens", "integer");
  ExpectRefused(R"("max_tokens":18446744073709551615)", "max_tokens", "integer");
  ExpectRefused(R"("stream":"yes")", "stream", "boolean");
  ExpectRefused(R"("stream":1)", "stream", "boolean");
  ExpectRefused(R"("stop":[1])", "stop[0]", "string");
  ExpectRefused(R"("stop":{})", "stop", "list of strings");
  ExpectRefused(R"("logit_bias":[])", "logit_bias", "object");
  ExpectRefused(R"("logit_bias":{"x":1})", "logit_bias", "token ids");
  ExpectRefused(R"("logit_bias":{"3":"x"})", "logit_bias.3", "number");
  ExpectRefused(R"("stop_token_ids":[1,"2"])", "stop_token_ids[1]", "integer");
  ExpectRefused(R"("seed":1.5)", "seed", "integer");
  ExpectRefused(R"("temperature":1e300)", "temperature", "out of range");
  ExpectRefused(R"("stream":true,"stream_options":{"include_usage":1})",
                "stream_options.include_usage", "boolean");
  ExpectRefused(R"("stream":true,"stream_options":{"usage":true})", "stream_options.usage");
  ExpectRefused(R"("n":0)", "n");
  ExpectRefused(R"("n":129)", "n");
  ExpectRefused(R"("logprobs":21)", "logprobs");
  ExpectRefused(R"("best_of":3)", "best_of");
}

// What clients send by default where they mean nothing by it.
TEST(CompletionRequestTest, ValuesThatAskForNothingAreTaken) {
  const auto parse = [](const std::string& fields) {
    return Completion(R"({"model":"m","prompt":"p",)" + fields + "}");
  };
  for (const char* none : {R"("stop":"")", R"("stop":[""])", R"("stop":[])", R"("stop":["",""])"}) {
    auto request = parse(none);
    ASSERT_TRUE(request.ok()) << none << request.error().message;
    EXPECT_TRUE(request->params.stop.empty()) << none;
  }
  EXPECT_EQ(parse(R"("stop":["","a"])")->params.stop, std::vector<std::string>{"a"});
  EXPECT_FALSE(parse(R"("bad_words":[""])").ok());
  EXPECT_TRUE(parse(R"("cache_prompt":true,"typical_p":1,"mirostat":0)").ok());
  ExpectRefused(R"("typical_p":0.9)", "typical_p", "not supported");
  auto unstreamed = parse(R"("stream_options":{"include_usage":true})");
  ASSERT_TRUE(unstreamed.ok()) << unstreamed.error().message;
  EXPECT_FALSE(unstreamed->params.include_usage);
  auto room = parse(R"("max_tokens":-1)");
  ASSERT_TRUE(room.ok()) << room.error().message;
  EXPECT_FALSE(room->params.tokens_max.has_value());
  EXPECT_EQ(room->params.tokens_default, kInt32Max);
  ExpectRefused(R"("top_p":"x")", "top_p");
  const std::string chat = R"({"model":"m","messages":[{"role":"user","content":"x"}],)";
  EXPECT_EQ(Chat(chat + R"("max_completion_tokens":-1,"max_tokens":5})")->params.tokens_default,
            kInt32Max);
  EXPECT_EQ(Chat(chat + R"("max_completion_tokens":5,"max_tokens":-1})")->params.tokens_max, 5);
  ExpectChatRefused(chat + R"("max_completion_tokens":0})", "max_completion_tokens");
  const auto thinking = Chat(chat + R"("enable_thinking":false})");
  ASSERT_FALSE(thinking.ok());
  EXPECT_NE(thinking.error().message.find("chat_template_kwargs"), std::string::npos);
}

TEST(BodyTest, KeysThatComeTwiceAreRefusedByName) {
  EXPECT_TRUE(ParseBody(R"({"a":1,"b":{"a":2}})").ok());
  for (const std::string body :
       {R"({"seed":1,"n":2,"seed":3})", R"({"x":[{"seed":1,"seed":1}]})"}) {
    const auto refused = ParseBody(body);
    ASSERT_FALSE(refused.ok()) << body;
    EXPECT_EQ(refused.error().http_status, 400);
    EXPECT_EQ(refused.error().param, "seed");
  }
  EXPECT_FALSE(ParseBody("").ok());
  EXPECT_FALSE(ParseBody("{").ok());
}

std::string Repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// A field that is ignored may hold anything, but not for any price: three bytes of text can become
// a hundred of a tree, and a key of many is looked up for a long time.
TEST(BodyTest, TreesAreBounded) {
  const auto refused = ParseBody(R"({"user":[)" + Repeat("{},", 1'400'000) + "{}]}");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().http_status, 400);
  EXPECT_NE(refused.error().message.find("too many values"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(ParseBody(R"({"prompt":[)" + Repeat("12345,", 1'400'000) + "1]}").ok());
  std::string keys;
  for (int i = 0; i < 4096; ++i) keys += "\"" + std::to_string(i) + "\":0,";
  EXPECT_TRUE(ParseBody(R"({"user":{)" + keys.substr(0, keys.size() - 1) + "}}").ok());
  const auto many = ParseBody(R"({"user":[{)" + keys + R"("x":0}]})");
  ASSERT_FALSE(many.ok());
  EXPECT_NE(many.error().message.find("4097 keys"), std::string::npos) << many.error().message;
}

TEST(CompletionRequestTest, AdaptersComeWithWeights) {
  auto request = Completion(
      R"({"model":"m","prompt":"p","adapters":[{"name":"a","weight":-0.5},{"name":"b"},
          {"name":"c","weight":0}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  const std::vector<AdapterShare>& adapters = request->params.adapters;
  ASSERT_EQ(adapters.size(), 3u);
  EXPECT_EQ(adapters[0].name, "a");
  EXPECT_EQ(adapters[0].weight, -0.5f);
  EXPECT_EQ(adapters[1].weight, 1.0f);
  EXPECT_EQ(adapters[2].weight, 0.0f);
  EXPECT_TRUE(Completion(R"({"model":"m","prompt":"p","adapters":[]})").ok());
  ExpectRefused(R"("adapters":"a+b")", "adapters", "must be a list");
  ExpectRefused(R"("adapters":["a"])", "adapters[0]", "must be a JSON object");
  ExpectRefused(R"("adapters":[{"weight":1}])", "adapters[0].name", "required");
  ExpectRefused(R"("adapters":[{"name":"a"},{"name":"a","weight":2}])", "adapters[1].name",
                "twice");
  ExpectRefused(R"("adapters":[{"name":"a","weight":"much"}])", "adapters[0].weight", "a number");
  ExpectRefused(R"("adapters":[{"name":"a","weight":100.5}])", "adapters[0].weight", "100");
  ExpectRefused(R"("adapters":[{"name":"a","scale":1}])", "adapters[0].scale");
  std::string nine;
  for (int i = 0; i < 9; ++i) {
    nine += (nine.empty() ? "" : ",") + (R"({"name":"a)" + std::to_string(i) + "\"}");
  }
  ExpectRefused(R"("adapters":[)" + nine + "]", "adapters", "more than 8");
}

TEST(CompletionRequestTest, UnknownFieldsAreRefusedWithTheNearestName) {
  ExpectRefused(R"("max_token":3)", "max_token", "'max_tokens'");
  ExpectRefused(R"("Temprature":3)", "Temprature", "'temperature'");
  ExpectRefused(R"("use_beam_serch":3)", "use_beam_serch", "'. Leave it out: Graft does not have");
  ExpectRefused(R"("adapters":[{"name":"a","wight":0}])", "adapters[0].wight", "'weight'");
  ExpectRefused(R"("zzzzzzzzzz":3)", "zzzzzzzzzz", "Unrecognized");
}

TEST(CompletionRequestTest, UnsupportedFieldsPassOnlyWhereTheyAskForNothing) {
  ExpectRefused(R"("suffix":"x")", "suffix", "not supported");
  ExpectRefused(R"("use_beam_search":true)", "use_beam_search", "not supported");
  ExpectRefused(R"("response_format":{"type":"yaml"})", "response_format.type", "'json_object'");
  ExpectRefused(R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})",
                "response_format.json_schema.schema", "required");
  ExpectRefused(R"("guided_json":3)", "guided_json", "JSON schema");
  ExpectRefused(R"("guided_json":"{")", "guided_json", "JSON schema");
  ExpectRefused(R"("guided_regex":"a","structured_outputs":{"choice":["b"]})", "guided_regex",
                "'structured_outputs.choice' exclude each other");
  ExpectRefused(R"("structured_outputs":{"structural_tag":"x"})",
                "structured_outputs.structural_tag", "must be a structural tag");
  for (const char* beside : {R"("min_tokens":2)", R"("ignore_eos":true)", R"("bad_words":["x"])",
                             R"("allowed_token_ids":[3])"}) {
    const std::string field = beside;
    ExpectRefused("\"guided_regex\":\"a\"," + field, field.substr(1, field.find(':') - 2),
                  "put together with 'guided_regex'");
  }
  const std::string budget = R"("thinking_token_budget":3,)";
  ExpectRefused(budget + R"("bad_words":["x"])", "bad_words", "'thinking_token_budget'");
  ExpectRefused(budget + R"("allowed_token_ids":[3])", "allowed_token_ids", "put together with");
  ExpectRefused(budget + R"("min_tokens":2,"stop_token_ids":[3])", "min_tokens", "put together");
  ExpectRefused(R"("thinking_token_budget":-2)", "thinking_token_budget", "-1");
  EXPECT_TRUE(Completion(R"({"model":"m","prompt":"p","suffix":"","use_beam_search":false,
    "guided_json":{},"bad_words":[],"response_format":{"type":"text"},"logits_processors":[]})")
                  .ok());
}

TEST(CompletionRequestTest, LimitsHold) {
  const RequestLimits limits{.prompt_bytes_max = 10,
                             .prompts_max = 2,
                             .choices_max = 3,
                             .stops_max = 1,
                             .stop_bytes_max = 4};
  const auto parse = [&](const std::string& fields) {
    return ParseCompletionRequest(ParseJson(R"({"model":"m",)" + fields + "}").value(), limits);
  };
  EXPECT_TRUE(parse(R"("prompt":"0123456789")").ok());
  EXPECT_EQ(parse(R"("prompt":"0123456789a")").error().param, "prompt");
  EXPECT_EQ(parse(R"("prompt":["a","b","c"])").error().param, "prompt");
  EXPECT_EQ(parse(R"("prompt":["a","b"],"n":2)").error().param, "n");
  EXPECT_EQ(parse(R"("prompt":"p","stop":["a","b"])").error().param, "stop");
  EXPECT_EQ(parse(R"("prompt":"p","stop":"abcde")").error().param, "stop");
}

TEST(CompletionRequestTest, BodiesThatAreNoObjectAreRefused) {
  for (const char* body : {"[]", "3", "null", "\"text\"", "true"}) {
    EXPECT_NE(Completion(body).error().message.find("must be a JSON object"), std::string::npos);
  }
}

TEST(ChatRequestTest, MessagesBecomePlainText) {
  auto request = Chat(R"({"model":"m","messages":[
    {"role":"developer","content":"be brief"},
    {"role":"user","name":"ann","content":[{"type":"text","text":"a"},
                                           {"type":"text","text":"b"}]},
    {"role":"assistant","content":null}],
    "chat_template_kwargs":{"enable_thinking":false},"max_completion_tokens":5,"max_tokens":9,
    "logprobs":true,"top_logprobs":2,"tools":[],"tool_choice":"none"})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->messages.list.dump(),
            R"([{"role":"system","content":"be brief"},)"
            R"({"role":"user","content":[{"type":"text","text":"a"},)"
            R"({"type":"text","text":"b"}],"name":"ann"},)"
            R"({"role":"assistant","content":""}])");
  EXPECT_EQ(request->template_kwargs.dump(), R"({"enable_thinking":false})");
  EXPECT_EQ(request->params.tokens_max, 5);
  EXPECT_EQ(request->params.sampling.num_logprobs, 2);
  EXPECT_TRUE(request->add_generation_prompt);
}

// Clients send answers back as they came, with what servers, gateways and libraries have put there.
TEST(ChatRequestTest, FieldsOfEarlierAnswersAreDropped) {
  const std::string extra =
      R"("provider_specific_fields":{"a":1},"thinking_blocks":[{"thinking":"x"}],"id":"m1",)"
      R"("reasoning_details":[],"parsed":{"a":1},"metadata":{},"cache_control":{"type":"x"},)"
      R"("usage":{},"finish_reason":"stop","images":[],"tool_call_id":"c","nobody_knows":[1])";
  auto request = Chat(
      R"({"model":"m","messages":[{"role":"user","content":"q","cache_control":{},"id":"u"},
      {"role":"assistant","content":"a","tool_calls":[{"id":"c","type":"function",
        "extra_content":{"x":1},"thought_signature":"s","function":{"name":"f",
        "arguments":{"b":1,"a":"é"},"parsed_arguments":{"b":1}}}],)" +
      extra + R"(},{"role":"tool","content":"r",)" + extra + "}]}");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->messages.list.dump(),
            R"([{"role":"user","content":"q"},{"role":"assistant","content":"a","tool_calls":[)"
            R"({"id":"c","type":"function","function":{"name":"f","arguments":)"
            R"({"a":"é","b":1}}}]},{"role":"tool","content":"r","tool_call_id":"c"}])");
  EXPECT_EQ(request->messages.argument_texts, std::vector<std::string>{R"({"a":"é","b":1})"});
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"assistant","function_call":{"name":"f"},
                        "content":"x"}]})",
                    "messages[0].function_call");
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"system","content":"x","parsed":1}]})",
                    "messages[0].parsed");
}

TEST(ChatRequestTest, ArgumentsThatAreObjectsKeepTheirOrder) {
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"q"},
      {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}},
                                        {"function":{"name":"g","arguments":{"b":1,"a":2}}}]}]})";
  auto request = Chat(body);
  ASSERT_TRUE(request.ok()) << request.error().message;
  UseOrderOf(body, &*request);
  EXPECT_EQ(request->messages.argument_texts, (std::vector<std::string>{"{}", R"({"b":1,"a":2})"}));
  const OrderedJson& calls = request->messages.list[1]["tool_calls"];
  EXPECT_EQ(calls[1]["function"]["arguments"].dump(), R"({"b":1,"a":2})");
}

TEST(ChatRequestTest, FieldsOfPartsAreDropped) {
  for (const char* role : {"user", "system", "developer", "assistant", "tool"}) {
    auto request = Chat(R"({"model":"m","messages":[{"role":")" + std::string(role) +
                        R"(","content":[{"type":"text","text":"q","id":"lc_1","annotations":[],
        "prompt_cache_breakpoint":{"mode":"explicit"},"cache_control":{},"extras":{"a":[1]}}]}]})");
    ASSERT_TRUE(request.ok()) << role << ": " << request.error().message;
    EXPECT_EQ(request->messages.list[0]["content"], "q");
  }
}

TEST(ChatRequestTest, PartsOfEarlierAnswersAreRead) {
  const auto message = [](const std::string& fields) {
    auto request = Chat(R"({"model":"m","messages":[{"role":"assistant",)" + fields + "}]}");
    EXPECT_TRUE(request.ok()) << request.error().message;
    return request.ok() ? request->messages.list[0].dump() : "";
  };
  EXPECT_EQ(message(R"("content":[{"type":"thinking","thinking":"hm","signature":"s"},
                       {"type":"redacted_thinking","data":"x"},
                       {"type":"output_text","text":"yes","annotations":[]}])"),
            R"({"role":"assistant","content":"yes","reasoning_content":"hm"})");
  EXPECT_EQ(message(R"("content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}])"),
            R"({"role":"assistant","content":"","reasoning_content":"hm"})");
  EXPECT_EQ(message(R"("content":[{"type":"reasoning","reasoning":"a","id":"r"},{"type":"reasoning",
                       "summary":[{"type":"summary_text","text":"b"}]}])"),
            R"({"role":"assistant","content":"","reasoning_content":"ab"})");
  EXPECT_EQ(message(R"("content":[{"type":"thinking","signature":"s"},{"type":"reasoning",
                       "summary":[],"encrypted_content":"x"},{"type":"text","text":"yes"}])"),
            R"({"role":"assistant","content":"yes"})");
  EXPECT_EQ(message(R"("content":[{"type":"refusal","refusal":"no"}])"),
            R"({"role":"assistant","content":"no"})");
  EXPECT_EQ(message(R"("content":null,"refusal":"no")"), R"({"role":"assistant","content":"no"})");
  EXPECT_EQ(message(R"("content":"a","refusal":"","reasoning":"r")"),
            R"({"role":"assistant","content":"a","reasoning_content":"r"})");
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"assistant","content":[
                        {"type":"image_url","image_url":{"url":"x"}}]}]})",
                    "messages[0].content[0].type");
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"user","content":[
                        {"type":"thinking","thinking":"x"}]}]})",
                    "messages[0].content[0].type");
}

// Models that see are asked by text alone.
TEST(ChatRequestTest, ImagesAndSoundAreRefusedByName) {
  for (const char* const type : {"image_url", "input_image", "image", "video_url", "input_audio"}) {
    const auto request = Chat(std::string(R"({"model":"m","messages":[{"role":"user","content":[
             {"type":"text","text":"What is this?"},{"type":")") +
                              type + R"("}]}]})");
    ASSERT_FALSE(request.ok()) << type;
    EXPECT_EQ(request.error().param, "messages[0].content[1].type");
    EXPECT_NE(request.error().message.find("is '" + std::string(type) + "', but only 'text'"),
              std::string::npos)
        << request.error().message;
  }
}

TEST(ChatRequestTest, BadMessagesAreRefusedByPath) {
  ExpectChatRefused(R"({"model":"m"})", "messages");
  ExpectChatRefused(R"({"model":"m","messages":[]})", "messages");
  ExpectChatRefused(R"({"model":"m","messages":"hi"})", "messages");
  ExpectChatRefused(R"({"model":"m","messages":["hi"]})", "messages[0]");
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"user"}]})", "messages[0].content");
  ExpectChatRefused(R"({"model":"m","messages":[{"content":"x"}]})", "messages[0].role");
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"bot","content":"x"}]})",
                    "messages[0].role");
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"user","content":3}]})",
                    "messages[0].content");
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url",
    "image_url":{"url":"x"}}]}]})",
                    "messages[0].content[0].type");
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]})",
                    "messages[0].content[0].text");
  ExpectChatRefused(R"({"model":"m","messages":[{"role":"user","content":"x","extra":1}]})",
                    "messages[0].extra");
  const std::string good = R"({"model":"m","messages":[{"role":"user","content":"x"}],)";
  ExpectChatRefused(good + R"("top_logprobs":3})", "top_logprobs");
  ExpectChatRefused(good + R"("logprobs":3})", "logprobs");
  ExpectChatRefused(good + R"("max_tokens":0})", "max_tokens");
  ExpectChatRefused(good + R"("chat_template_kwargs":{"messages":[]}})",
                    "chat_template_kwargs.messages");
  ExpectChatRefused(good + R"("prompt":"x"})", "prompt");
  ExpectChatRefused(good + R"("verbosity":"low"})", "verbosity");
  EXPECT_TRUE(Chat(good + R"("verbosity":"medium"})").ok());
}

TEST(AdapterRequestTest, NamesAndPathsAreChecked) {
  auto load =
      ParseLoadAdapterRequest({{"lora_name", "a"}, {"lora_path", "b/c"}, {"load_inplace", true}});
  ASSERT_TRUE(load.ok());
  EXPECT_EQ(load->name, "a");
  EXPECT_EQ(load->path, "b/c");
  EXPECT_TRUE(load->replace);
  Json plain = {{"lora_name", "a"}, {"lora_path", "b"}, {"is_3d_lora_weight", false}};
  EXPECT_TRUE(ParseLoadAdapterRequest(plain).ok());
  plain["is_3d_lora_weight"] = true;
  EXPECT_EQ(ParseLoadAdapterRequest(plain).error().param, "is_3d_lora_weight");
  EXPECT_EQ(ParseLoadAdapterRequest({{"lora_name", "a"}}).error().param, "lora_path");
  EXPECT_EQ(ParseLoadAdapterRequest({{"lora_path", "a"}}).error().param, "lora_name");
  EXPECT_EQ(ParseLoadAdapterRequest({{"lora_name", "a\nb"}, {"lora_path", "a"}}).error().param,
            "lora_name");
  EXPECT_EQ(ParseLoadAdapterRequest({{"lora_name", "a"}, {"lora_path", std::string("a\0b", 3)}})
                .error()
                .param,
            "lora_path");
  EXPECT_EQ(*ParseUnloadAdapterRequest({{"lora_name", "a"}}), "a");
  EXPECT_EQ(ParseUnloadAdapterRequest({{"lora_nam", "a"}}).error().param, "lora_name");
}

TEST(NearestNamesTest, FindsWhatWasMeant) {
  const std::vector<std::string> names = {"austen", "doyle", "doyle-large", "wells"};
  EXPECT_EQ(NearestNames("doile", names), "'doyle'");
  EXPECT_EQ(NearestNames("DOYLE", names), "'doyle', 'doyle-large'");
  EXPECT_EQ(NearestNames("large", names), "'doyle-large'");
  EXPECT_EQ(NearestNames("something-else-entirely", names), "");
  EXPECT_EQ(NearestNames("", names), "");
  EXPECT_EQ(EditDistance("abcd", "abdc", 5), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting", 5), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting", 1), 2);  // gave up at the limit
}

TEST(CompletionRequestTest, AsksForThePromptsLogprobs) {
  const auto parse = [](const std::string& fields) {
    return ParseCompletionRequest(Json::parse(R"({"model":"m","prompt":"x",)" + fields + "}"),
                                  RequestLimits());
  };
  auto request = parse(R"("prompt_logprobs":4,"logprobs":2,"truncate_prompt_tokens":3,
                                "truncation_side":"right")");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_TRUE(request->params.sampling.prompt_logprobs);
  EXPECT_EQ(request->params.sampling.num_logprobs, 4);
  EXPECT_EQ(request->params.num_top_logprobs, 2);
  EXPECT_TRUE(request->params.keeps_first_tokens);
  auto alone = parse(R"("prompt_logprobs":0)");
  ASSERT_TRUE(alone.ok());
  EXPECT_FALSE(alone->params.logprobs);
  EXPECT_EQ(alone->params.sampling.num_logprobs, 0);
  EXPECT_EQ(parse(R"("prompt_logprobs":1,"stream":true)").error().param, "prompt_logprobs");
  EXPECT_EQ(parse(R"("prompt_logprobs":21)").error().param, "prompt_logprobs");
  EXPECT_EQ(parse(R"("truncation_side":"middle")").error().param, "truncation_side");
}

}  // namespace
}  // namespace graft
