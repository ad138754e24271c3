#include "tuning/answer_score.h"

#include <algorithm>
#include <map>

#include "text/unicode.h"
#include "text/utf8.h"

namespace graft {
namespace {

bool IsAsciiPunctuation(char32_t c) { return c < 0x80 && IsUnicodePunctuation(c); }

}  // namespace

std::vector<std::string> WordsOfAnswer(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    const bool is_article = word == "a" || word == "an" || word == "the";
    if (!word.empty() && !is_article) words.push_back(word);
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, &at);
    if (IsUnicodeWhitespace(c)) {
      end_word();
    } else if (!IsAsciiPunctuation(c)) {
      AppendLowercase(c, &word);
    }
  }
  end_word();
  return words;
}

AnswerScore ScoreAnswer(std::string_view said, std::string_view right) {
  const std::vector<std::string> words = WordsOfAnswer(said);
  const std::vector<std::string> wanted = WordsOfAnswer(right);
  AnswerScore score;
  score.is_exact = words == wanted;
  std::map<std::string_view, size_t> left;
  for (const std::string& word : wanted) ++left[word];
  size_t same = 0;
  for (const std::string& word : words) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++same;
  }
  if (same == 0) {
    score.f1 = score.is_exact ? 1.0 : 0.0;
    return score;
  }
  const double precision = static_cast<double>(same) / static_cast<double>(words.size());
  const double recall = static_cast<double>(same) / static_cast<double>(wanted.size());
  score.f1 = 2 * precision * recall / (precision + recall);
  return score;
}

}  // namespace graft
