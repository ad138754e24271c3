// A program for tests that check answers by schemas with a validator. It reads lines of JSON,
// {"schema": ..., "answers": N, "texts": [...]},
// and writes for each {"refused": MESSAGE}, or
// {"answers": [{"text": ..., "ended": true}], "accepted": [true, ...]}.
// There are N answers, drawn at random under the mask, and for each text whether it is an answer.
// An answer that has not ended was cut, or no token was left ("stuck").
#include <cstdio>
#include <iostream>
#include <string>

#include "base/json.h"
#include "base/random.h"
#include "base/token_mask.h"
#include "grammar/grammar_loader.h"
#include "grammar/grammar_text.h"
#include "grammar/schema.h"
#include "grammar/test_vocabulary.h"

namespace graft {
namespace {

constexpr int kTokensMax = 6000;
constexpr int64_t kTokenNsMax = 10'000'000'000;  // a test waits, but not for ever

bool Accepts(GrammarMatcher& matcher, int32_t token) {
  GrammarTime time = {.left_ns = kTokenNsMax};
  return matcher.Accept(token, &time) == GrammarAnswer::kYes;
}

// What ends something comes more often than chance has it, and what opens something less.
double WeightOf(const GrammarVocabulary& vocabulary, int32_t token) {
  if (token == kTestEndToken) return 400.0;
  if (static_cast<size_t>(token) >= vocabulary.token_bytes.size()) return 1.0;
  const std::string& bytes = vocabulary.token_bytes[static_cast<size_t>(token)];
  if (bytes == "\"" || bytes == "}" || bytes == "]") return 60.0;
  if (bytes == "," || bytes == "[" || bytes == "{") return 1.5;
  return 1.0;
}

OrderedJson DrawAnswer(const GrammarVocabulary& vocabulary, const CompiledGrammar& grammar,
                       Random& random) {
  const auto matcher = grammar.NewMatcher(nullptr);
  std::vector<uint32_t> words(static_cast<size_t>(NumMaskWords(vocabulary.vocab_size)));
  std::string text;
  for (int i = 0; i < kTokensMax; ++i) {
    GrammarTime time = {.left_ns = kTokenNsMax};
    if (matcher->FillMask(words, &time) != GrammarAnswer::kYes)
      return {{"text", text}, {"ended", false}, {"stuck", true}};
    double total = 0.0;
    for (int32_t token = 0; token < vocabulary.vocab_size; ++token) {
      if (IsInMask(words.data(), token)) total += WeightOf(vocabulary, token);
    }
    double left = random.Uniform() * total;
    int32_t drawn = -1;
    for (int32_t token = 0; token < vocabulary.vocab_size && left >= 0.0; ++token) {
      if (!IsInMask(words.data(), token)) continue;
      left -= WeightOf(vocabulary, token);
      drawn = token;
    }
    if (!Accepts(*matcher, drawn)) return {{"text", text}, {"ended", false}, {"refuses", drawn}};
    if (drawn == kTestEndToken) return {{"text", text}, {"ended", true}};
    text += vocabulary.token_bytes[static_cast<size_t>(drawn)];
  }
  return {{"text", text}, {"ended", false}};
}

// By bytes, of which each is a token.
bool IsAccepted(const std::string& text, const CompiledGrammar& grammar) {
  const auto matcher = grammar.NewMatcher(nullptr);
  for (const char c : text) {
    if (!Accepts(*matcher, 1 + static_cast<unsigned char>(c))) return false;
  }
  return Accepts(*matcher, kTestEndToken);
}

OrderedJson Answer(const GrammarVocabulary& vocabulary, const GrammarCompiler& compiler,
                   const OrderedJson& question, Random& random) {
  const Result<OrderedJson> schema = ReadSchema(question["schema"]);
  if (!schema.ok()) return {{"refused", schema.status().message()}};
  std::string error;
  const auto grammar = compiler.Compile(
      GrammarText(SchemaFormat(*schema)), [] { return false; }, &error);
  if (grammar == nullptr) return {{"failed", error}};
  OrderedJson out = {{"answers", OrderedJson::array()}, {"accepted", OrderedJson::array()}};
  for (int i = 0; i < question.value("answers", 0); ++i) {
    out["answers"].push_back(DrawAnswer(vocabulary, *grammar, random));
  }
  for (const OrderedJson& text : question.value("texts", OrderedJson::array())) {
    out["accepted"].push_back(IsAccepted(text.get<std::string>(), *grammar));
  }
  return out;
}

}  // namespace
}  // namespace graft

int main() {
  using namespace graft;  // NOLINT
  const Result<const GrammarLibrary*> library = LoadGrammarLibrary();
  if (!library.ok()) {
    std::fprintf(stderr, "%s\n", library.status().message().c_str());
    return 3;
  }
  const GrammarVocabulary vocabulary = TestVocabulary();
  std::string error;
  const auto compiler = (*library)->NewCompiler(vocabulary, &error);
  if (compiler == nullptr) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  Random random(1);
  for (std::string line; std::getline(std::cin, line);) {
    const OrderedJson question = OrderedJson::parse(line);
    const OrderedJson answer = Answer(vocabulary, *compiler, question, random);
    std::cout << answer.dump(-1, ' ', true, OrderedJson::error_handler_t::replace) << std::endl;
  }
}
