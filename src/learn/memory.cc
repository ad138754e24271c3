// The learner memory: virtual tokens that stand for one document in front of every prompt. They
// begin as the embeddings of tokens spread over the document and are trained directly, by the
// teacher of distill: the base that has the document in its context. LoRA beside them is optional.
#include <utility>

#include "learn/learner.h"

namespace graft {
namespace {

class MemoryLearner : public Learner {
 public:
  explicit MemoryLearner(DistillSettings settings)
      : study_(MakeDistillLearner(std::move(settings))) {}

  std::string_view name() const override { return "memory"; }
  LearnerRates rates() const override {
    return {.learning_rate = 1e-3,
            .prompt_learning_rate = 2e-2,
            .passes = 16,
            .batch = 8,
            .keeps_best = true};
  }
  LearnerParts parts() const override {
    return {.rank = 0, .virtual_tokens = 32, .kind = VirtualTokenKind::kEmbedding};
  }
  int32_t ExampleTokensMax(int32_t window_tokens) const override {
    return study_->ExampleTokensMax(window_tokens);
  }
  bool writes() const override { return true; }
  int32_t TeacherTokensMax(int32_t window_tokens) const override {
    return study_->TeacherTokensMax(window_tokens);
  }
  int64_t TaughtRowsMax(const LearnerInput& input) const override {
    return study_->TaughtRowsMax(input);
  }

  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* writer) override {
    ASSIGN_OR_RETURN(LearnerData data, study_->Prepare(input, writer));
    data.text = input.tokens;
    return data;
  }

 private:
  const std::unique_ptr<Learner> study_;
};

}  // namespace

std::unique_ptr<Learner> MakeMemoryLearner(DistillSettings settings) {
  return std::make_unique<MemoryLearner>(std::move(settings));
}

}  // namespace graft
