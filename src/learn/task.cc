// The learner task: DCD's shared extractor (arXiv 2503.08727). One LoRA learns to answer questions
// beside the frozen adapters of many documents. It learns what to do with what they know, not what
// they know, so it works beside adapters of documents that it never met.
#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "learn/learner.h"

namespace graft {
namespace {

constexpr size_t kDocumentsToHoldOut = 4;

TrainingExample ExampleOf(const TaskQuestion& question) {
  TrainingExample example;
  example.document = question.document;
  example.tokens = question.prompt;
  for (const int32_t token : question.answer) {
    example.rows.push_back(static_cast<int32_t>(example.tokens.size()) - 1);
    example.ids.push_back(token);
    example.probabilities.push_back(1.0f);
    example.tokens.push_back(token);
  }
  return example;
}

class TaskLearner : public Learner {
 public:
  explicit TaskLearner(std::vector<TaskQuestion> questions) : questions_(std::move(questions)) {}

  std::string_view name() const override { return "task"; }
  LearnerRates rates() const override {
    return {.learning_rate = 1e-4, .passes = 8, .batch = 8, .keeps_best = true};
  }
  int32_t ExampleTokensMax(int32_t /*window_tokens*/) const override {
    size_t longest = 1;
    for (const TaskQuestion& question : questions_) {
      longest = std::max(longest, question.prompt.size() + question.answer.size());
    }
    return static_cast<int32_t>(longest);
  }

  LearnerDataSize DataMax(const LearnerInput& /*input*/, int32_t /*num_choices*/) const override {
    LearnerDataSize size;
    for (const TaskQuestion& question : questions_) {
      size.Add(1, static_cast<int64_t>(question.prompt.size()),
               static_cast<int64_t>(question.answer.size()), 1);
    }
    return size;
  }

  // Whole documents are held out, with all questions about them. The score thus tells whether the
  // LoRA works with a document that it was not taught on.
  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* /*writer*/) override {
    int32_t num_documents = 0;
    for (const TaskQuestion& question : questions_) {
      if (question.prompt.empty() || question.answer.empty()) {
        return InvalidArgumentError("a question or an answer is empty");
      }
      num_documents = std::max(num_documents, question.document + 1);
    }
    if (questions_.empty()) return InvalidArgumentError("there are no questions to learn from");
    const auto n = static_cast<size_t>(num_documents);
    size_t num_held_out = 0;
    if (n >= kDocumentsToHoldOut && input.held_out_share > 0.0) {
      num_held_out = std::max<size_t>(
          1, static_cast<size_t>(static_cast<double>(n) * input.held_out_share + 0.5));
    }
    LearnerData data;
    data.text = input.tokens;
    for (const TaskQuestion& question : questions_) {
      const auto i = static_cast<size_t>(std::max(0, question.document));
      const bool is_held_out = question.document >= 0 && IsHeldOut(i, num_held_out, n);
      (is_held_out ? data.held_out : data.training).push_back(ExampleOf(question));
    }
    CHECK(!data.training.empty());
    return data;
  }

 private:
  const std::vector<TaskQuestion> questions_;
};

}  // namespace

std::unique_ptr<Learner> MakeTaskLearner(std::vector<TaskQuestion> questions) {
  return std::make_unique<TaskLearner>(std::move(questions));
}

}  // namespace graft
