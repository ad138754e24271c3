// The learner prefix: Cartridges. Keys and values of every layer stand in front of every prompt.
// They begin as what the base computes of the document's first tokens, so that untrained they are
// the document cut short, and are taught as distill's adapter is; the first position never moves.
// The base itself learns nothing, so that what it could do before it still does.
#include <utility>

#include "learn/study_learner.h"

namespace graft {
namespace {

class PrefixLearner : public StudyLearner {
 public:
  using StudyLearner::StudyLearner;

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

  // The text begins as the base's texts do: all rows rest on their first token.
  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* writer) override {
    ASSIGN_OR_RETURN(LearnerData data, StudyLearner::Prepare(input, writer));
    data.text = input.start;
    data.text.insert(data.text.end(), input.tokens.begin(), input.tokens.end());
    return data;
  }
};

}  // namespace

std::unique_ptr<Learner> MakePrefixLearner(DistillSettings settings) {
  return std::make_unique<PrefixLearner>(std::move(settings));
}

}  // namespace graft
