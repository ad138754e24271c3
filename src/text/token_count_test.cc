// A number of tokens that is known before tokenizing must hold for every tokenizer.
#include "text/token_count.h"

#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "base/random.h"
#include "text/text_test_util.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace graft {
namespace {

// Texts that are hard for the bound: those that shrink most, and long runs.
std::vector<std::string> HardTexts() {
  std::vector<std::string> texts;
  const Json goldens = ComponentGoldens();
  for (const Json& text : goldens["texts"]) texts.push_back(text.get<std::string>());
  for (const char* piece : {" ", "a", "-", "\n", "\t ", "\u2581", "e\u0301", "\U0001D41A", "\u212A",
                            "\uFB01", "\U0001F642", "</s>", "<sep>", "[M]", " \u3000", "\x04"}) {
    std::string text;
    for (int i = 0; i < 60; ++i) text += piece;
    texts.push_back(text);
    texts.push_back("<sep>" + text + "[M]" + text);
  }
  Random random(5);
  for (int i = 0; i < 50; ++i) {
    std::string text;
    for (int j = 0; j < 40; ++j) text += "ab \n-</s>"[random.Below(9)];
    texts.push_back(text);
  }
  return texts;
}

void ExpectBound(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.Encode(text, /*add_special_tokens=*/false);
  ASSERT_TRUE(ids.ok()) << ids.status().ToString();
  EXPECT_LE(tokenizer.TextTokensMin(text), static_cast<int64_t>(ids->size())) << text;
}

TEST(TokenCountTest, HoldsForEveryComponent) {
  const Json goldens = ComponentGoldens();
  const std::vector<std::string> texts = HardTexts();
  int num_bounded = 0;
  ForEachComponent(goldens, [&](const Json&, const Tokenizer& tokenizer) {
    for (const std::string& text : texts) ExpectBound(tokenizer, text);
    num_bounded += tokenizer.TextTokensMin(std::string(10'000, 'a')) > 0 ? 1 : 0;
  });
  EXPECT_GE(num_bounded, 25);
}

TEST(TokenCountTest, HoldsForRealTokenizers) {
  if (!FileExists(ConformanceDir())) GTEST_SKIP() << "no ../shared/conformance";
  for (const char* name : {"Phi-3-mini", "SmolLM2-1.7B-Instruct", "TinyLlama-1.1B-Chat-v1.0",
                           "Mistral-7B-Instruct-v0.3"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = Tokenizer::Load(ConformanceDir() + "/tokenizers/" + name);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    for (const std::string& text : HardTexts()) ExpectBound(**tokenizer, text);
    // No token is longer than 64 spaces of three bytes.
    EXPECT_GE((*tokenizer)->TextTokensMin(std::string(4 << 20, ' ')), (4 << 20) / 192);
  }
}

TEST(TokenCountTest, TellsAFloodOfSpacesFromItsLength) {
  const auto tokenizer = Tokenizer::Load(SourceDir() + "/demo/base");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->TextTokensMin(""), 0);
  EXPECT_EQ((*tokenizer)->TextTokensMin("a"), 1);
  EXPECT_GT((*tokenizer)->TextTokensMin(std::string(4 << 20, ' ')), 1024);
}

// A token that takes white space along may take any amount of it, but only if the vocabulary has
// such a token.
TEST(TokenCountTest, TokensThatTakeWhiteSpace) {
  Json file = ComponentGoldens()["families"][0]["tokenizer"];
  file["added_tokens"].push_back({{"id", 1000},
                                  {"content", "[M]"},
                                  {"special", true},
                                  {"rstrip", true},
                                  {"normalized", false}});
  const auto tokenizer = Tokenizer::Parse(DumpJson(file), "");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const std::string spaces(10'000, ' ');
  EXPECT_GT((*tokenizer)->TextTokensMin(spaces), 100);
  EXPECT_EQ((*tokenizer)->TextTokensMin("[M]" + spaces), 1);
  ExpectBound(**tokenizer, "[M]" + spaces);
}

TEST(TokenCountTest, NothingIsToldWhereTextIsDropped) {
  const Json base = ComponentGoldens()["families"][0]["tokenizer"];
  const std::string text(10'000, 'a');
  for (const char* normalizer :
       {R"({"type": "Strip"})", R"({"type": "StripAccents"})",
        R"({"type": "Replace", "pattern": {"String": "a"}, "content": ""})",
        R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"})"}) {
    Json file = base;
    file["normalizer"] = Json::parse(normalizer);
    const auto tokenizer = Tokenizer::Parse(DumpJson(file), "");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    EXPECT_EQ((*tokenizer)->TextTokensMin(text), 0) << normalizer;
  }
}

TEST(TokenCountTest, AReplacementMayShorten) {
  Json file = ComponentGoldens()["families"][0]["tokenizer"];
  file["normalizer"] =
      Json::parse(R"({"type": "Replace", "pattern": {"String": "aaaaaaaaaa"}, "content": "b"})");
  const auto tokenizer = Tokenizer::Parse(DumpJson(file), "");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_GT((*tokenizer)->TextTokensMin(std::string(10'000, 'a')), 0);
  ExpectBound(**tokenizer, std::string(10'000, 'a'));
}

std::string Encoded(char32_t c) {
  std::string text;
  AppendCodePoint(c, &text);
  return text;
}

// The code points of all planes that have assigned ones, without surrogates.
std::vector<char32_t> AssignedPlanes() {
  std::vector<char32_t> all;
  for (char32_t c = 1; c < 0x32000; ++c) {
    if (c < 0xD800 || c >= 0xE000) all.push_back(c);
  }
  return all;
}

// At most four bytes become one. This holds for every character and for every way to compose one.
TEST(TokenCountTest, NoNormalFormShrinksByMoreThanFour) {
  std::map<std::string, std::string> longest;  // the longest text that becomes this
  for (const NormalForm form : {NormalForm::kNfd, NormalForm::kNfkd}) {
    for (const char32_t c : AssignedPlanes()) {
      const std::string text = Encoded(c);
      const std::string apart = *NormalizeUnicode(text, form);
      ASSERT_LE(text.size(), 4 * apart.size()) << std::hex << static_cast<uint32_t>(c);
      std::string& known = longest[apart];
      if (known.size() < text.size()) known = text;
    }
  }
  for (const char32_t c : AssignedPlanes()) {
    std::string lower;
    AppendLowercase(c, &lower);
    const std::string text = Encoded(c);
    ASSERT_LE(text.size(), 4 * lower.size()) << std::hex << static_cast<uint32_t>(c);
    const std::string apart = *NormalizeUnicode(text, NormalForm::kNfd);
    std::string source;  // the longest text that composes to c
    for (size_t pos = 0; pos < apart.size();) {
      source += longest[Encoded(NextCodePoint(apart, &pos))];
    }
    ASSERT_LE(source.size(), 4 * text.size()) << std::hex << static_cast<uint32_t>(c);
  }
}

}  // namespace
}  // namespace graft
