// What answers with tools are bound to, by the library that the server's engine has.
#include "openai/chat_grammar.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "grammar/grammar_loader.h"
#include "grammar/grammar_text.h"
#include "grammar/test_vocabulary.h"

namespace graft {
namespace {

const std::string kWeatherTools = R"("tools": [
  {"type": "function", "function": {"name": "weather", "strict": STRICT, "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"], "additionalProperties": false}}},
  {"type": "function", "function": {"name": "stop", "parameters": {"type": "object"}}}])";

class ChatGrammarTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<const GrammarLibrary*> library = LoadGrammarLibrary();
    if (!library.ok()) GTEST_SKIP() << library.status().message();
    std::string error;
    compiler_ = (*library)->NewCompiler(TestVocabulary(), &error);
    ASSERT_NE(compiler_, nullptr) << error;
  }

  static std::string Tools(bool strict) {
    std::string tools = kWeatherTools;
    return tools.replace(tools.find("STRICT"), 6, strict ? "true" : "false");
  }
  // The grammar of a chat with these fields, "" for none.
  ApiResult<std::string> Grammar(const std::string& fields, ToolFormat format,
                                 ReasoningFormat reasoning = ReasoningFormat::kNone) {
    const std::string body =
        R"({"model": "m", "messages": [{"role": "user", "content": "?"}], )" + fields + "}";
    ApiResult<ChatRequest> request = ParseChatRequest(ParseJson(body).value(), {});
    if (!request.ok()) return request.error();
    UseOrderOf(body, &*request);
    UseOrderOf(body, &request->params.answer);
    OutputOptions output{.tool_format = format,
                         .reasoning_format = reasoning,
                         .has_one_call = request->tools.has_one_call,
                         .tools = request->tools.tools};
    return ChatGrammarOf(*request, &output);
  }
  void Bind(const std::string& fields, ToolFormat format,
            ReasoningFormat reasoning = ReasoningFormat::kNone) {
    ApiResult<std::string> text = Grammar(fields, format, reasoning);
    ASSERT_TRUE(text.ok()) << text.error().message;
    std::string error;
    grammar_ = compiler_->Compile(
        *text, [] { return false; }, &error);
    ASSERT_NE(grammar_, nullptr) << error;
  }
  // By bytes, of which each is a token.
  bool Takes(const std::string& text) const {
    const auto matcher = grammar_->NewMatcher(nullptr);
    const auto accepts = [&matcher](int32_t token) {
      GrammarTime time = {.left_ns = 10'000'000'000};
      return matcher->Accept(token, &time) == GrammarAnswer::kYes;
    };
    for (const char c : text) {
      if (!accepts(1 + static_cast<unsigned char>(c))) return false;
    }
    return accepts(kTestEndToken);
  }

  std::unique_ptr<GrammarCompiler> compiler_;
  std::shared_ptr<const CompiledGrammar> grammar_;
};

std::string Hermes(const std::string& name, const std::string& arguments) {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments +
         "}\n</tool_call>";
}

TEST_F(ChatGrammarTest, TextIsFreeUntilACallOpens) {
  Bind(Tools(true), ToolFormat::kHermes);
  EXPECT_TRUE(Takes("It is fine, {\"name\": 3} < 5 <tool> and so on."));
  EXPECT_TRUE(Takes(""));
  const std::string call = Hermes("weather", R"({"city": "Bern", "days": 3})");
  EXPECT_TRUE(Takes(call));
  EXPECT_TRUE(Takes("Let me see.\n" + call + "\n" + call + " Fine."));
  EXPECT_TRUE(Takes(Hermes("stop", R"({"what": [1, {}]})"))) << "not strict: any object";
  EXPECT_FALSE(Takes(Hermes("weather", R"({"days": 3})"))) << "a city is required";
  EXPECT_FALSE(Takes(Hermes("weather", R"({"city": "Bern", "days": "3"})")));
  EXPECT_FALSE(Takes(Hermes("weather", R"({"city": "Bern", "country": "CH"})")));
  EXPECT_FALSE(Takes(Hermes("walk", "{}")));
  EXPECT_FALSE(Takes("What is <tool_call> for?"));
  EXPECT_FALSE(Takes("Well. <tool_call>\n{\"name\": \"stop\", \"arguments\": {}"));
}

TEST_F(ChatGrammarTest, LlamasCallsAreBoundAsTheyOpen) {
  Bind(Tools(true), ToolFormat::kLlama);
  const auto call = [](const std::string& name, const std::string& arguments) {
    return "{\"name\": \"" + name + "\", \"parameters\": " + arguments + "}";
  };
  EXPECT_TRUE(Takes("The set {1, 2} has two."));
  EXPECT_TRUE(Takes(call("weather", R"({"city": "Bern"})")));
  EXPECT_TRUE(Takes("<|python_tag|>" + call("weather", R"({"city": "Bern"})")));
  EXPECT_FALSE(Takes(call("weather", R"({"days": 1})")));
  EXPECT_FALSE(Takes("So: " + call("weather", R"({"days": 1})")));
  EXPECT_FALSE(Takes("<|python_tag|>" + call("walk", "{}")));
}

TEST_F(ChatGrammarTest, ReasoningIsFree) {
  Bind(Tools(true), ToolFormat::kHermes, ReasoningFormat::kThink);
  const std::string call = Hermes("weather", R"({"city": "Bern"})");
  EXPECT_TRUE(Takes("<think>A <tool_call> may help.</think>\n\n" + call));
  EXPECT_TRUE(Takes("<think>No.</think>It rains."));
  EXPECT_TRUE(Takes(call));
  EXPECT_FALSE(Takes("<think>Yes.</think>" + Hermes("weather", "{}")));
}

TEST_F(ChatGrammarTest, WithoutAStrictFunctionNothingIsBound) {
  EXPECT_EQ(*Grammar(Tools(false), ToolFormat::kHermes), "");
  EXPECT_EQ(
      *Grammar(Tools(true) + R"(, "tool_choice": "none", "ignore_eos": true)", ToolFormat::kNone),
      "");
  EXPECT_EQ(*Grammar(Tools(true), ToolFormat::kMistral), "") << "its calls are not bound";
  EXPECT_EQ(Grammar(Tools(true) + R"(, "ignore_eos": true)", ToolFormat::kHermes).error().param,
            "ignore_eos");
  std::string odd = Tools(true);
  odd.replace(odd.find(R"("integer")"), 9, R"("array", "uniqueItems": true)");
  EXPECT_EQ(Grammar(odd, ToolFormat::kHermes).error().param,
            "tools[0].function.parameters.properties.days.uniqueItems");
}

// Names are bound where calls are, and only there.
TEST_F(ChatGrammarTest, OddNamesAreRefusedWhereCallsAreBoundToThem) {
  const auto tools = [](const std::string& second, bool strict) {
    return R"("tools": [{"type": "function", "function": {"name": "f", "strict": )" +
           std::string(strict ? "true" : "false") +
           R"(}}, {"type": "function", "function": {"name": ")" + second +
           R"(", "parameters": {"type": "any"}}}])";
  };
  for (const char* name : {"f", "a b"}) {
    EXPECT_EQ(*Grammar(tools(name, false), ToolFormat::kHermes), "");
    EXPECT_EQ(*Grammar(tools(name, true), ToolFormat::kMistral), "");
    for (const std::string& bound :
         {tools(name, true), tools(name, false) + R"(, "tool_choice": "required")",
          tools(name, false) + R"(, "response_format": {"type": "json_object"})"}) {
      const auto refused = Grammar(bound, ToolFormat::kHermes);
      ASSERT_FALSE(refused.ok()) << bound;
      EXPECT_EQ(refused.error().param, "tools[1].function.name");
    }
  }
  const std::string forced = R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})";
  EXPECT_TRUE(Grammar(tools("a b", false) + forced, ToolFormat::kHermes).ok());
  EXPECT_TRUE(Grammar(tools("g", true), ToolFormat::kHermes).ok()) << "its schema binds nothing";
  EXPECT_EQ(Grammar(tools("g", false) + R"(, "tool_choice": "required")", ToolFormat::kHermes)
                .error()
                .param.substr(0, 28),
            "tools[1].function.parameters");
}

TEST_F(ChatGrammarTest, AnAnswerHasItsFormOrIsCalls) {
  const std::string format =
      R"(, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema":
        {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}}})";
  Bind(Tools(true) + format, ToolFormat::kHermes);
  const std::string call = Hermes("weather", R"({"city": "Bern"})");
  EXPECT_TRUE(Takes(R"({"ok": true})"));
  EXPECT_TRUE(Takes(call));
  EXPECT_TRUE(Takes(call + "\n" + Hermes("stop", "{}")));
  EXPECT_FALSE(Takes("Fine."));
  EXPECT_FALSE(Takes(R"({"ok": 1})"));
  EXPECT_FALSE(Takes(Hermes("weather", R"({"days": 3})")));
  EXPECT_FALSE(Takes(call + R"({"ok": true})"));
  // Not strict: any object. A model with calls that cannot be bound gives the answer alone.
  Bind(Tools(false) + format, ToolFormat::kHermes);
  EXPECT_TRUE(Takes(Hermes("weather", R"({"days": 3})")));
  Bind(Tools(true) + format, ToolFormat::kMistral);
  EXPECT_TRUE(Takes(R"({"ok": true})"));
  EXPECT_FALSE(Takes(call));
  Bind(Tools(true) + format + R"(, "tool_choice": "none")", ToolFormat::kNone);
  EXPECT_FALSE(Takes(call));
}

TEST_F(ChatGrammarTest, StructuralTagsAreFollowed) {
  const std::string content = R"({"type": "json_schema", "json_schema": {"type": "object",
      "properties": {"z": {"type": "integer"}, "a": {"type": "integer"}}}})";
  Bind(R"("response_format": {"type": "structural_tag", "format": {"type": "sequence", "elements": [
        {"type": "const_string", "value": "Go: "},
        {"type": "triggered_tags", "triggers": ["<f="], "at_least_one": true, "tags": [
          {"begin": "<f=x>", "content": )" +
           content + R"(, "end": "</f>"}]}]}})",
       ToolFormat::kNone);
  EXPECT_TRUE(Takes(R"(Go: <f=x>{"z": 1, "a": 2}</f> done)"));
  EXPECT_FALSE(Takes(R"(Go: <f=x>{"a": 2, "z": 1}</f>)")) << "in the order of the schema";
  EXPECT_FALSE(Takes(R"(Go: <f=y>{}</f>)"));
  Bind(R"("response_format": {"type": "structural_tag", "triggers": ["<f="], "structures": [
        {"begin": "<f=x>", "schema": {"type": "object", "properties": {"z": {"const": 1}}},
         "end": "</f>"}]})",
       ToolFormat::kNone);
  EXPECT_TRUE(Takes("Any text."));
  EXPECT_TRUE(Takes(R"(One <f=x>{"z": 1}</f> and <f=x>{}</f>)"));
  EXPECT_FALSE(Takes(R"(One <f=x>{"z": 2}</f>)"));
}

TEST_F(ChatGrammarTest, StructuralTagsAreRefusedByPlace) {
  const auto param = [&](const std::string& tag) {
    const auto grammar =
        Grammar(R"("response_format": {"type": "structural_tag", )" + tag + "}", ToolFormat::kNone);
    EXPECT_FALSE(grammar.ok()) << tag;
    return grammar.ok() ? "" : grammar.error().param;
  };
  EXPECT_EQ(param(R"("x": 1)"), "response_format");
  EXPECT_EQ(param(R"("format": {"value": "a"})"), "response_format.format");
  EXPECT_EQ(param(R"("format": {"type": "token", "token": 5})"), "response_format.format.type");
  EXPECT_EQ(param(R"("format": {"type": "const_string"})"), "response_format.format.value");
  EXPECT_EQ(param(R"("format": {"type": "any_text", "max_tokens": 5})"),
            "response_format.format.max_tokens");
  EXPECT_EQ(
      param(R"("format": {"type": "or", "elements": [{"type": "any_text"}, {"type": "json_schema",
                  "json_schema": {"properties": {"a": {"uniqueItems": true}}}}]})"),
      "response_format.format.elements[1].json_schema.properties.a.uniqueItems");
  EXPECT_EQ(param(R"("triggers": ["<"], "structures": [{"begin": "<a>", "end": ">"}])"),
            "response_format.structures[0].schema");
  EXPECT_EQ(param(R"("format": {"type": "repeat", "min": -1, "max": 2, "content":
                  {"type": "any_text"}})"),
            "response_format.format.min");
}

// Counts what matchers take, up to a bound.
class CountingRoom : public GrammarRoom {
 public:
  explicit CountingRoom(int64_t bytes_max) : bytes_max_(bytes_max) {}
  bool Take(int64_t bytes) override {
    if (taken_ + bytes > bytes_max_) return false;
    taken_ += bytes;
    return true;
  }
  int64_t taken() const { return taken_; }

 private:
  const int64_t bytes_max_;
  int64_t taken_ = 0;
};

// At each token of this grammar parts go on that began at any token before it.
TEST_F(ChatGrammarTest, StatesOfAMatcherBeyondAFewNeedRoom) {
  std::string error;
  const auto grammar = compiler_->Compile(
      GrammarText(EbnfFormat("root ::= e root | e\ne ::= \"a\" [ab]*")), [] { return false; },
      &error);
  ASSERT_NE(grammar, nullptr) << error;
  // The tokens that it takes.
  const auto num_accepted = [](GrammarMatcher& matcher, int num_tokens) {
    for (int i = 0; i < num_tokens; ++i) {
      GrammarTime time = {.left_ns = 10'000'000'000};
      if (matcher.Accept(1 + 'a', &time) != GrammarAnswer::kYes) return i;
    }
    return num_tokens;
  };
  const auto none = std::make_shared<CountingRoom>(0);
  const auto without = grammar->NewMatcher(none);
  const int num_without = num_accepted(*without, 40'000);
  EXPECT_GT(num_without, 10);
  EXPECT_LT(num_without, 40'000);
  const auto some = std::make_shared<CountingRoom>(int64_t{8} << 20);
  auto with = grammar->NewMatcher(some);
  EXPECT_EQ(num_accepted(*with, num_without + 10), num_without + 10);
  EXPECT_GT(some->taken(), 0);
  with.reset();
  EXPECT_EQ(some->taken(), 0);
}

}  // namespace
}  // namespace graft
