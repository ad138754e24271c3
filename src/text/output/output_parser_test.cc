#include "text/output/output_parser.h"

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "text/text_test_util.h"

namespace graft {
namespace {

using Kind = OutputPart::Kind;

struct Call {
  std::string name;
  std::string arguments;
};

// An answer as a client that streams puts it together, or as the one body has it.
struct Answer {
  std::string content;
  std::string reasoning;
  std::vector<Call> calls;
};

OutputParts Parsed(const std::shared_ptr<const OutputOptions>& options,
                   const std::vector<std::string>& pieces, int* num_calls = nullptr) {
  OutputParser parser(options);
  OutputParts parts;
  for (const std::string& piece : pieces) {
    OutputParts some;
    parser.Push(piece, &some);
    for (const OutputPart& part : some) {
      const bool joins = part.kind == Kind::kContent || part.kind == Kind::kReasoning ||
                         part.kind == Kind::kArguments;
      if (joins) {
        AppendPart(part.kind, part.text, &parts);
      } else {
        parts.push_back(part);
      }
    }
  }
  parser.Finish(&parts);
  if (num_calls != nullptr) *num_calls = parser.num_calls();
  return parts;
}

Answer AnswerOf(const OutputParts& parts, bool streamed) {
  Answer answer;
  for (const OutputPart& part : parts) {
    if (part.kind == Kind::kContent) answer.content += part.text;
    if (part.kind == Kind::kReasoning) answer.reasoning += part.text;
    if (part.kind == Kind::kCall) answer.calls.push_back({part.text, ""});
    if (part.kind == Kind::kArguments) answer.calls.back().arguments += part.text;
    if (part.kind != Kind::kCallDropped || streamed) continue;
    answer.calls.pop_back();
    answer.content += part.text;
  }
  return answer;
}

std::string Show(const OutputParts& parts) {
  std::string text;
  for (const OutputPart& part : parts) {
    text += std::to_string(static_cast<int>(part.kind)) + ":" + part.text + "|";
  }
  return text;
}

std::string Trimmed(const Json& text) {
  if (!text.is_string()) return "";
  std::string trimmed = text.get<std::string>();
  trimmed.erase(0, trimmed.find_first_not_of(" \t\r\n"));
  trimmed.erase(trimmed.find_last_not_of(" \t\r\n") + 1);
  return trimmed;
}

std::vector<std::string> Bytes(const std::string& text) {
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  return bytes;
}

bool SameCalls(const Json& expected, const std::vector<Call>& calls) {
  if (expected.size() != calls.size()) return false;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (expected[i]["name"] != calls[i].name) return false;
    if (expected[i].contains("arguments_text")) {
      if (expected[i]["arguments_text"] != calls[i].arguments) return false;
      continue;
    }
    const Result<Json> arguments = ParseJson(calls[i].arguments);
    if (!arguments.ok() || *arguments != expected[i]["arguments"]) return false;
  }
  return true;
}

// Whether the answer is `expected`, of which a missing key is not compared.
bool Matches(const Json& test, const Json& expected, const Answer& answer) {
  const bool any_content = test.value("content_unspecified", false);
  const bool any_calls = test.value("calls_unspecified", false);
  if (!any_content && expected.contains("content") &&
      Trimmed(expected["content"]) != Trimmed(answer.content)) {
    return false;
  }
  if (expected.contains("reasoning_content") &&
      Trimmed(expected["reasoning_content"]) != Trimmed(answer.reasoning)) {
    return false;
  }
  return any_calls || !expected.contains("tool_calls") ||
         SameCalls(expected["tool_calls"], answer.calls);
}

bool MatchesAny(const Json& test, const Answer& answer) {
  if (Matches(test, test["expected"], answer)) return true;
  for (const Json& other : test.value("also_accepted", Json::array())) {
    if (Matches(test, other, answer)) return true;
  }
  return false;
}

ToolFormat FormatOf(const std::string& file, const Json& test) {
  const std::map<std::string, ToolFormat> formats = {
      {"hermes_qwen", ToolFormat::kHermes}, {"llama_json", ToolFormat::kLlama},
      {"mistral", ToolFormat::kMistral},    {"deepseek", ToolFormat::kDeepSeek},
      {"pythonic", ToolFormat::kPythonic},  {"gemma", ToolFormat::kGemma}};
  if (file != "reasoning") return formats.at(file);
  for (const Json& category : test["category"]) {
    if (category == "hermes") return ToolFormat::kHermes;
    if (category == "mistral") return ToolFormat::kMistral;
    if (category == "deepseek") return ToolFormat::kDeepSeek;
  }
  return ToolFormat::kNone;
}

std::shared_ptr<OutputOptions> OptionsOf(const std::string& file, const Json& json,
                                         const Json& test) {
  auto options = std::make_shared<OutputOptions>();
  options->tool_format = FormatOf(file, test);
  options->reasoning_format = options->tool_format == ToolFormat::kMistral
                                  ? ReasoningFormat::kMistral
                                  : ReasoningFormat::kThink;
  options->in_reasoning = test.value("prompt_opens_think", false);
  for (const Json& tool : json["tools"]) {
    options->tools.push_back({tool["function"]["name"], tool["function"]["parameters"]});
  }
  return options;
}

void CheckCase(const std::shared_ptr<const OutputOptions>& options, const Json& test) {
  const std::string raw = test["raw"];
  int num_calls = 0;
  const OutputParts parts = Parsed(options, {raw}, &num_calls);
  const Answer whole = AnswerOf(parts, /*streamed=*/false);
  EXPECT_TRUE(MatchesAny(test, whole)) << Show(parts) << "\n" << test["expected"];
  if (!test.value("calls_unspecified", false)) {
    // What length cuts off says so, whatever calls there are.
    const bool calls = num_calls > 0 && test["stop"] == "stop";
    const std::string finish = calls ? "tool_calls" : test["stop"].get<std::string>();
    if (Matches(test, test["expected"], whole)) {
      EXPECT_EQ(finish, test["expected"]["finish_reason"].get<std::string>());
    }
  }
  for (const Json& texts : test.value("arguments_must_contain", Json::array())) {
    for (const Json& text : texts) {
      EXPECT_NE(whole.calls.at(0).arguments.find(text.get<std::string>()), std::string::npos);
    }
  }
  // The same comes out of any pieces, down to half characters.
  EXPECT_EQ(Show(Parsed(options, Bytes(raw))), Show(parts));
  for (size_t cut = 1; cut < raw.size(); ++cut) {
    EXPECT_EQ(Show(Parsed(options, {raw.substr(0, cut), raw.substr(cut)})), Show(parts)) << cut;
  }
  if (test.contains("chunks")) {
    EXPECT_EQ(Show(Parsed(options, test["chunks"].get<std::vector<std::string>>())), Show(parts));
  }
  // A stream has said no more than it may of what the whole answer does not have.
  const Answer streamed = AnswerOf(parts, /*streamed=*/true);
  if (!test.contains("stream_may_emit")) {
    EXPECT_TRUE(MatchesAny(test, streamed)) << Show(parts);
  } else if (!streamed.calls.empty()) {
    const Json& may = test["stream_may_emit"];
    ASSERT_LE(streamed.calls.size(), may.size());
    for (size_t i = 0; i < streamed.calls.size(); ++i) {
      EXPECT_EQ(streamed.calls[i].name, may[i]["name"]);
      EXPECT_TRUE(
          may[i]["arguments_prefix_of"].get<std::string>().starts_with(streamed.calls[i].arguments))
          << streamed.calls[i].arguments;
    }
  }
}

TEST(OutputParserTest, ReadsRealOutputs) {
  const std::string dir = ConformanceDir() + "/tool_outputs/";
  if (!FileExists(dir)) GTEST_SKIP() << "no ../shared/conformance";
  int num_cases = 0;
  for (const std::string file :
       {"hermes_qwen", "llama_json", "mistral", "deepseek", "pythonic", "gemma", "reasoning"}) {
    Result<Json> json = ParseJsonFile(dir + file + ".json");
    ASSERT_TRUE(json.ok()) << json.status().ToString();
    for (const Json& test : (*json)["cases"]) {
      SCOPED_TRACE(file + " " + test["id"].get<std::string>());
      CheckCase(OptionsOf(file, *json, test), test);
      ++num_cases;
    }
  }
  EXPECT_EQ(num_cases, 191);
}

// The calls that `text` has, as "name(arguments)", and its content.
std::string Read(ToolFormat format, const std::string& text, OutputOptions options = {}) {
  options.tool_format = format;
  if (options.tools.empty()) options.tools = {{"f", {}}, {"g", {}}};
  const auto shared = std::make_shared<const OutputOptions>(std::move(options));
  const OutputParts parts = Parsed(shared, {text});
  EXPECT_EQ(Show(Parsed(shared, Bytes(text))), Show(parts));
  const Answer answer = AnswerOf(parts, /*streamed=*/false);
  std::string shown;
  for (const Call& call : answer.calls) shown += call.name + "(" + call.arguments + ") ";
  if (!answer.reasoning.empty()) shown += "[" + answer.reasoning + "]";
  return shown + answer.content;
}

TEST(OutputParserTest, HermesKeepsWhatTheModelWrote) {
  const auto read = [](const std::string& text) { return Read(ToolFormat::kHermes, text); };
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\", \"arguments\": { \"x\" : 1.0 }}</tool_call>"),
            "f({ \"x\" : 1.0 }) ");
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\"}</tool_call>"), "f({}) ");
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>"), "f({}) ");
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"), "f([1]) ");
  // Line feeds in a string, which JSON forbids and models write.
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": \"a\nb\"}}</tool_call>"),
            "f({\"x\": \"a\\nb\"}) ");
  EXPECT_EQ(read("<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>"),
            "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>");
  EXPECT_EQ(read("<tool_call>{\"name\": \"f\", \"arguments\": {}}<tool_call>{\"name\": \"g\", "
                 "\"arguments\": {}}"),
            "f({}) g({}) ");
}

TEST(OutputParserTest, ACallThatBreaksIsText) {
  const std::string text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 01}}</tool_call> a";
  EXPECT_EQ(Read(ToolFormat::kHermes, text), text);
  EXPECT_EQ(Read(ToolFormat::kMistral, "[TOOL_CALLS]f[ARGS]{\"x\": tru}"),
            "[TOOL_CALLS]f[ARGS]{\"x\": tru}");
}

TEST(OutputParserTest, WithoutAMarkACallNamesATool) {
  const std::string json = "{\"name\": \"Bob\", \"parameters\": {}}";
  EXPECT_EQ(Read(ToolFormat::kLlama, json), json);
  EXPECT_EQ(Read(ToolFormat::kLlama, "<|python_tag|>" + json), "Bob({}) ");
  EXPECT_EQ(Read(ToolFormat::kPythonic, "[Bob()]"), "[Bob()]");
  EXPECT_EQ(Read(ToolFormat::kPythonic, "<|python_start|>[Bob()]<|python_end|>"), "Bob({}) ");
  EXPECT_EQ(Read(ToolFormat::kLlama, "{{\"name\": \"f\", \"parameters\": {}}}"), "f({}) {}");
}

TEST(OutputParserTest, ReadsPythonsLiterals) {
  const auto read = [](const std::string& value) {
    return Read(ToolFormat::kPythonic, "[f(x=" + value + ")]");
  };
  EXPECT_EQ(read("'a\\tb\\x41\\u00e9\\ud83d\\ude00'"),
            "f({\"x\": \"a\\tbA\xC3\xA9\xF0\x9F\x98\x80\"}) ");
  EXPECT_EQ(read("'''it's\n\"so\"'''"), "f({\"x\": \"it's\\n\\\"so\\\"\"}) ");
  EXPECT_EQ(read("''"), "f({\"x\": \"\"}) ");
  EXPECT_EQ(read("[1_000, .5, 5., +3, -2e3]"), "f({\"x\": [1000, 0.5, 5.0, 3, -2e3]}) ");
  EXPECT_EQ(read("(1)"), "f({\"x\": 1}) ");
  EXPECT_EQ(read("(1,)"), "f({\"x\": [1]}) ");
  EXPECT_EQ(read("{1: {'a': (), 'b': None},}"), "f({\"x\": {\"1\": {\"a\": [], \"b\": null}}}) ");
  for (const std::string bad : {"{1, 2}", "1 + 2", "open('x')", "r'x'", "{[1]: 2}", "--1", "1.2.3",
                                "'\\ud800'", "nan", "1, x=2", "1, 2"}) {
    EXPECT_EQ(read(bad), "[f(x=" + bad + ")]");
  }
  EXPECT_EQ(read(std::string(2000, '[') + std::string(2000, ']')),
            "[f(x=" + std::string(2000, '[') + std::string(2000, ']') + ")]");
}

// A tool of every type.
OutputOptions TypedTool() {
  OutputOptions options;
  options.tools = {{"f", Json::parse(R"({"properties":{"text":{"type":"string"},
      "count":{"type":"integer"},"on":{"type":"boolean"},"list":{"type":"array"},
      "maybe":{"type":["integer","null"]},"word":{"type":["string","null"]},"any":{}}})")}};
  return options;
}

TEST(OutputParserTest, ReadsQwenCodersXml) {
  const auto read = [](const std::string& text) {
    return Read(ToolFormat::kQwenCoder, text, TypedTool());
  };
  const auto value = [&](const std::string& key, const std::string& text) {
    return read("<tool_call>\n<function=f>\n<parameter=" + key + ">\n" + text +
                "\n</parameter>\n</function>\n</tool_call>");
  };
  EXPECT_EQ(value("text", "Zürich"), "f({\"text\": \"Zürich\"}) ");
  EXPECT_EQ(value("text", "12"), "f({\"text\": \"12\"}) ");
  EXPECT_EQ(value("text", " a <b> </tool_call>\n\"c\"\n"),
            "f({\"text\": \" a <b> </tool_call>\\n\\\"c\\\"\\n\"}) ");
  EXPECT_EQ(value("count", "12"), "f({\"count\": 12}) ");
  EXPECT_EQ(value("count", "twelve"), "f({\"count\": \"twelve\"}) ");
  EXPECT_EQ(value("count", "1e999"), "f({\"count\": \"1e999\"}) ");
  EXPECT_EQ(value("on", "True"), "f({\"on\": true}) ");
  EXPECT_EQ(value("list", "[1, {\"a\": 2}]"), "f({\"list\": [1, {\"a\": 2}]}) ");
  EXPECT_EQ(value("maybe", "null"), "f({\"maybe\": null}) ");
  EXPECT_EQ(value("word", "12"), "f({\"word\": \"12\"}) ");
  EXPECT_EQ(value("unknown", "12"), "f({\"unknown\": \"12\"}) ");
  EXPECT_EQ(read("Look:\n<tool_call><function=f></function></tool_call>"
                 "<tool_call><function=other><parameter=a>1</parameter><parameter=b>\n\n"
                 "</parameter></function></tool_call>"),
            "f({}) other({\"a\": \"1\", \"b\": \"\"}) Look:");
  // Without the outer marks, or the last of them.
  EXPECT_EQ(read("<function=f>\n<parameter=count>\n1\n</parameter>\n</function>"),
            "f({\"count\": 1}) ");
  EXPECT_EQ(read("<tool_call>\n<function=f>\n</function>"), "f({}) ");
  // What breaks is text; half a call at the end is nothing.
  for (const std::string text :
       {"<tool_call>{\"name\": \"f\"}</tool_call>", "<function=>", "<tool_call><function=f>x",
        "<tool_call><function=f><parameter=a>1</parameter></parameter></function></tool_call>"}) {
    EXPECT_EQ(read(text), text);
  }
  EXPECT_EQ(read("a <tool_call><function=f><parameter=text>b"), "a ");
  EXPECT_EQ(read("a <tool_call><function=f><parameter=text>b</parameter>"), "a ");
}

TEST(OutputParserTest, ReadsGlmsXml) {
  const auto read = [](const std::string& text) {
    return Read(ToolFormat::kGlm, text, TypedTool());
  };
  EXPECT_EQ(read("<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>a\nb</arg_value>\n"
                 "<arg_key>count</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"),
            "f({\"text\": \"a\\nb\", \"count\": 3}) ");
  EXPECT_EQ(read("Two. <tool_call>f</tool_call>\n<tool_call>g\n</tool_call>"), "f({}) g({}) Two.");
  EXPECT_EQ(
      read("<tool_call>f<arg_key>text</arg_key><arg_value></tool_call></arg_value></tool_call>"),
      "f({\"text\": \"</tool_call>\"}) ");
  for (const std::string text :
       {"<tool_call>{\"name\": \"f\"}</tool_call>", "<tool_call></tool_call>",
        "<tool_call>f<arg_key>a</arg_key>b</tool_call>"}) {
    EXPECT_EQ(read(text), text);
  }
  EXPECT_EQ(read("<tool_call>f<arg_key>text</arg_key><arg_value>b"), "");
}

TEST(OutputParserTest, TheFirstCallAloneWhereOnlyOneIsWanted) {
  const OutputOptions options{.has_one_call = true};
  EXPECT_EQ(Read(ToolFormat::kPythonic, "[f(), g()] and", options), "f({}) and");
  EXPECT_EQ(Read(ToolFormat::kHermes,
                 "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": x}}</tool_call>"
                 "<tool_call>{\"name\": \"g\", \"arguments\": {\"y\": 1}}</tool_call>",
                 options),
            "g({\"y\": 1}) <tool_call>{\"name\": \"f\", \"arguments\": {\"x\": x}}</tool_call>");
}

// Each of these took a time that grows with the square of its length, or could.
TEST(OutputParserTest, LongTextsTakeNoLongerThanTheirLength) {
  OutputOptions options{.reasoning_format = ReasoningFormat::kThink};
  options.tools = {{"f", {}}};
  const size_t size = 300'000;
  const auto length = [&](ToolFormat format, const std::string& text) {
    options.tool_format = format;
    const auto shared = std::make_shared<const OutputOptions>(options);
    return AnswerOf(Parsed(shared, {text}), /*streamed=*/false).content.size();
  };
  EXPECT_EQ(length(ToolFormat::kHermes, std::string(size, ' ') + "x"), size + 1);
  EXPECT_EQ(length(ToolFormat::kLlama, std::string(size, '{')), size);
  EXPECT_EQ(length(ToolFormat::kPythonic, std::string(size, '[')), size);
  EXPECT_EQ(length(ToolFormat::kPythonic, "[f(" + std::string(size, '(')), size + 3);
  EXPECT_EQ(length(ToolFormat::kMistral, "[TOOL_CALLS]" + std::string(size, ' ')), size + 12);
  EXPECT_EQ(length(ToolFormat::kGemma, "<|tool_call>call:" + std::string(size, '>')), size + 17);
  const std::string marks = std::string(size, '>') + std::string(size, ' ');
  EXPECT_EQ(length(ToolFormat::kQwenCoder, "<tool_call>" + std::string(size, ' ')), size + 11);
  EXPECT_EQ(length(ToolFormat::kQwenCoder, "<tool_call><function=f><parameter=a>" + marks), 0u);
  EXPECT_EQ(length(ToolFormat::kGlm, "<tool_call>" + marks), 2 * size + 11);
  std::string many = "[f(";
  for (int i = 0; i < 30'000; ++i) many += "a" + std::to_string(i) + "=1,";
  EXPECT_EQ(length(ToolFormat::kPythonic, many + ")]"), 0u);
}

TEST(OutputParserTest, ReasoningIsNobodysWhereItIsNotWanted) {
  OutputOptions options{.reasoning_format = ReasoningFormat::kThink};
  EXPECT_EQ(Read(ToolFormat::kNone, "<think> a </think>\n\nb ", options), "[a]b");
  options.drops_reasoning = true;
  EXPECT_EQ(Read(ToolFormat::kNone, "<think> a </think>\n\nb ", options), "b");
  options.reasoning_format = ReasoningFormat::kMistral;
  options.drops_reasoning = false;
  const std::string arguments = R"({"x": "[THINK]a[/THINK]"})";
  EXPECT_EQ(Read(ToolFormat::kMistral, "[THINK]b[/THINK][TOOL_CALLS]f" + arguments + "c", options),
            "f(" + arguments + ") [b]c");
  // Later marks are what the text is about.
  options.reasoning_format = ReasoningFormat::kThink;
  options.drops_reasoning = false;
  EXPECT_EQ(Read(ToolFormat::kNone, "Use <think>a</think>.\n", options), "Use <think>a</think>.\n");
}

TEST(OutputFormatTest, IsToldByTheTemplate) {
  const std::string dir = ConformanceDir() + "/chat_templates/";
  if (!FileExists(dir)) GTEST_SKIP() << "no ../shared/conformance";
  const std::map<std::string, std::pair<ToolFormat, ReasoningFormat>> formats = {
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
       {ToolFormat::kHermes, ReasoningFormat::kNone}},
      {"Qwen-Qwen2.5-7B-Instruct", {ToolFormat::kHermes, ReasoningFormat::kNone}},
      {"Qwen3-0.6B", {ToolFormat::kHermes, ReasoningFormat::kThink}},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
       {ToolFormat::kDeepSeek, ReasoningFormat::kThink}},
      {"meta-llama-Llama-3.1-8B-Instruct", {ToolFormat::kLlama, ReasoningFormat::kNone}},
      {"llama-3-instruct", {ToolFormat::kNone, ReasoningFormat::kNone}},
      {"chatml", {ToolFormat::kNone, ReasoningFormat::kNone}},
      {"mistral-instruct", {ToolFormat::kNone, ReasoningFormat::kNone}}};
  for (const auto& [name, expected] : formats) {
    const Result<std::string> source = ReadFile(dir + name + ".jinja");
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    EXPECT_EQ(DetectToolFormat(*source), expected.first) << name;
    EXPECT_EQ(DetectReasoningFormat(*source), expected.second) << name;
  }
  EXPECT_EQ(DetectToolFormat("{{ '[TOOL_CALLS] [' }}"), ToolFormat::kMistral);
  EXPECT_EQ(DetectToolFormat("<tool_call><function=f>"), ToolFormat::kQwenCoder);
  EXPECT_EQ(DetectToolFormat("<tool_call>f<arg_key>"), ToolFormat::kGlm);
  EXPECT_EQ(DetectToolFormat("<|python_start|>"), ToolFormat::kPythonic);
  EXPECT_EQ(DetectToolFormat("<start_function_call>"), ToolFormat::kGemma);
  EXPECT_EQ(DetectReasoningFormat("[THINK]"), ReasoningFormat::kMistral);
}

}  // namespace
}  // namespace graft
