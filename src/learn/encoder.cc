// The learner encoder: the form of memory of offline context learning (Cao and Tan, section 3).
// What it has of a document is distill's texts; how they are learned is EncoderRun's.
#include <algorithm>
#include <utility>

#include "learn/study_learner.h"

namespace graft {
namespace {

class EncoderLearner : public StudyLearner {
 public:
  using StudyLearner::StudyLearner;

  std::string_view name() const override { return "encoder"; }
  LearnerRates rates() const override {
    return {.learning_rate = 2e-4, .prompt_learning_rate = 1e-3, .passes = 8, .batch = 4};
  }
  // LoRA of the encoder and of the decoder; virtual tokens of each window.
  LearnerParts parts() const override {
    return {.rank = 16, .virtual_tokens = 32, .kind = VirtualTokenKind::kEmbedding};
  }
  // A window is reconstructed whole.
  int32_t ExampleTokensMax(int32_t window_tokens) const override {
    return std::max(StudyLearner::ExampleTokensMax(window_tokens), window_tokens);
  }
};

}  // namespace

std::unique_ptr<Learner> MakeEncoderLearner(DistillSettings settings) {
  return std::make_unique<EncoderLearner>(std::move(settings));
}

}  // namespace graft
