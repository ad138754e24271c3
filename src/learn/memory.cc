// The learner memory: virtual tokens that stand for one document in front of every prompt. They
// begin as the embeddings of tokens spread over the document and are trained directly, by the
// teacher of distill: the base that has the document in its context. LoRA beside them is optional.
#include <utility>

#include "learn/study_learner.h"

namespace graft {
namespace {

class MemoryLearner : public StudyLearner {
 public:
  using StudyLearner::StudyLearner;

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
};

}  // namespace

std::unique_ptr<Learner> MakeMemoryLearner(DistillSettings settings) {
  return std::make_unique<MemoryLearner>(std::move(settings));
}

}  // namespace graft
