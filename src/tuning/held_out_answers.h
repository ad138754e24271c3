// Measures what an adapter knows of its document. The questions are those that the base wrote about
// the document and that the adapter was not taught. The adapter and the base answer each of them
// without the document. The right answer is the base's with the document in its context. One
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"
#include "learn/learner.h"
#include "learn/text_writer.h"
#include "text/tokenizer.h"

namespace graft {

struct HeldOutAnswers {
  int32_t asked = 0;
  // Answers by the adapter and by the base with the right words in their first line (ScoreAnswer).
  int32_t right = 0, right_base = 0;
  double f1 = 0.0, f1_base = 0.0;  // mean over the questions
};

// As orders to a writer: as many of the questions as are worth the time, spread over all of them.
struct HeldOutQuiz {
  std::vector<WriteOrder> orders;
  std::vector<std::string> right;  // of each order
};
HeldOutQuiz MakeQuiz(std::span<const AskedQuestion> questions, const Tokenizer& tokenizer);

// Nothing where there are no questions.
Result<std::optional<HeldOutAnswers>> AskHeldOut(const HeldOutQuiz& quiz, TextWriter& adapter,
                                                 TextWriter& base, const Tokenizer& tokenizer);

// The same, and what is known then is among the scores of graft.json in `folder`.
Result<std::optional<HeldOutAnswers>> JudgeByAnswers(const std::string& folder,
                                                     const HeldOutQuiz& quiz, TextWriter& adapter,
                                                     TextWriter& base, const Tokenizer& tokenizer);

// "7 of 8 right (base 0)".
std::string DescribeAnswers(const HeldOutAnswers& answers);
OrderedJson HeldOutAnswersJson(const HeldOutAnswers& answers);
// A warning about an adapter that answers worse than the base, or less than half of its questions
// (F1 below 0.5); "" otherwise. `advice`: what would help.
std::string WarnOfAnswers(const HeldOutAnswers& answers, const std::string& advice);

// The score of an answer against the right one, as SQuAD compares them and tools/ocl_eval reports
// it: case, punctuation, articles and the amount of white space do not count. Pure functions.
// WordsOfAnswer returns the words of `text`, which is valid UTF-8, that are compared.
std::vector<std::string> WordsOfAnswer(std::string_view text);

struct AnswerScore {
  bool is_exact = false;  // the same words in the same order
  double f1 = 0.0;        // of the words that both have, how often as often; 0 to 1
};
AnswerScore ScoreAnswer(std::string_view said, std::string_view right);

}  // namespace graft
