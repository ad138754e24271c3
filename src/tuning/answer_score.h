// What an answer is worth beside the one that is right, as SQuAD compares them and tools/ocl_eval
// reports it: without case, punctuation, articles and the width of white space. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

// The words of `text`, which is valid UTF-8, that are compared.
std::vector<std::string> WordsOfAnswer(std::string_view text);

struct AnswerScore {
  bool is_exact = false;  // the same words in the same order
  double f1 = 0.0;        // of the words that both have, how often as often; 0 to 1
};
AnswerScore ScoreAnswer(std::string_view said, std::string_view right);

}  // namespace graft
