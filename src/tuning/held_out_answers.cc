#include "tuning/held_out_answers.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "learn/learned_folder.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace graft {
namespace {

constexpr size_t kQuestionsMax = 64;
// That an answer may be longer than the right one: articles and punctuation do not count.
constexpr int32_t kMoreTokens = 8;
constexpr double kF1Min = 0.5;

// An answer is a line.
std::string FirstLine(const std::vector<int32_t>& tokens, const Tokenizer& tokenizer) {
  const std::string text = tokenizer.Decode(tokens, /*skip_special_tokens=*/true);
  const size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  return text.substr(begin, text.find('\n', begin) - begin);
}

bool IsAsciiPunctuation(char32_t c) { return c < 0x80 && IsUnicodePunctuation(c); }

}  // namespace

HeldOutQuiz MakeQuiz(std::span<const AskedQuestion> questions, const Tokenizer& tokenizer) {
  HeldOutQuiz quiz;
  const size_t count = std::min(kQuestionsMax, questions.size());
  for (size_t i = 0; i < count; ++i) {
    const AskedQuestion& question = questions[i * questions.size() / count];
    quiz.orders.push_back({.prompt = question.prompt,
                           .tokens_max = static_cast<int32_t>(question.answer.size()) + kMoreTokens,
                           .temperature = 0.0f});
    quiz.right.push_back(FirstLine(question.answer, tokenizer));
  }
  return quiz;
}

Result<std::optional<HeldOutAnswers>> AskHeldOut(const HeldOutQuiz& quiz, TextWriter& adapter,
                                                 TextWriter& base, const Tokenizer& tokenizer) {
  if (quiz.orders.empty()) return std::optional<HeldOutAnswers>();
  HeldOutAnswers answers;
  answers.asked = static_cast<int32_t>(quiz.orders.size());
  const auto ask = [&](TextWriter& writer, int32_t* right, double* f1) -> Status {
    ASSIGN_OR_RETURN(const std::vector<TaughtText> said, writer.Write(quiz.orders));
    for (size_t i = 0; i < said.size(); ++i) {
      const AnswerScore score = ScoreAnswer(FirstLine(said[i].tokens, tokenizer), quiz.right[i]);
      *right += score.is_exact ? 1 : 0;
      *f1 += score.f1 / answers.asked;
    }
    return OkStatus();
  };
  RETURN_IF_ERROR(ask(adapter, &answers.right, &answers.f1));
  RETURN_IF_ERROR(ask(base, &answers.right_base, &answers.f1_base));
  return std::optional(answers);
}

Result<std::optional<HeldOutAnswers>> JudgeByAnswers(const std::string& folder,
                                                     const HeldOutQuiz& quiz, TextWriter& adapter,
                                                     TextWriter& base, const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(std::optional<HeldOutAnswers> answers,
                   AskHeldOut(quiz, adapter, base, tokenizer));
  if (answers.has_value()) {
    RETURN_IF_ERROR(AddToScores(folder, "held_out_answers", HeldOutAnswersJson(*answers)));
  }
  return answers;
}

std::string DescribeAnswers(const HeldOutAnswers& answers) {
  return fmt::format(
      "{} of {} questions that it was not taught right, F1 {:.2f} (base {}, F1 {:.2f})",
      answers.right, answers.asked, answers.f1, answers.right_base, answers.f1_base);
}

OrderedJson HeldOutAnswersJson(const HeldOutAnswers& answers) {
  return {{"asked", answers.asked},
          {"right", answers.right},
          {"right_base", answers.right_base},
          {"f1", answers.f1},
          {"f1_base", answers.f1_base}};
}

std::string WarnOfAnswers(const HeldOutAnswers& answers, const std::string& advice) {
  if (answers.f1 >= kF1Min && answers.f1 >= answers.f1_base) return "";
  return "the adapter answers little of what it was not taught word by word (" +
         DescribeAnswers(answers) + "); " + advice;
}

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
