// The learner prefix: Cartridges. Keys and values of every layer stand in front of every prompt.
// They begin as what the base computes of the document's first tokens, so that untrained they are
// the document cut short, and are taught as distill's adapter is; the first position never moves.
// The base itself learns nothing, so that what it could do before it still does.
#include <utility>

#include "learn/learner.h"

namespace graft {
namespace {

class PrefixLearner : public Learner {
 public:
  explicit PrefixLearner(DistillSettings settings)
      : study_(MakeDistillLearner(std::move(settings))) {}

  std::string_view name() const override { return "prefix"; }
  LearnerRates rates() const override {
    return {.learning_rate = 1e-3,
            .prompt_learning_rate = 2e-2,
            .passes = 16,
            .batch = 8,
            .keeps_best = true};
  }
  LearnerParts parts() const override {
    return {.rank = 0, .virtual_tokens = 128, .kind = VirtualTokenKind::kKeysValues};
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

  // The text begins as the base's texts do: all rows rest on their first token.
  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* writer) override {
    ASSIGN_OR_RETURN(LearnerData data, study_->Prepare(input, writer));
    data.text = input.start;
    data.text.insert(data.text.end(), input.tokens.begin(), input.tokens.end());
    return data;
  }

 private:
  const std::unique_ptr<Learner> study_;
};

}  // namespace

std::unique_ptr<Learner> MakePrefixLearner(DistillSettings settings) {
  return std::make_unique<PrefixLearner>(std::move(settings));
}

}  // namespace graft
