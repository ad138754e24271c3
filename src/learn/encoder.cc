// The learner encoder: the seed's form of memory (002_d7cecee0a3a0e3c5.txt, section 3). What it has
// of a document is distill's texts; how they are learned is EncoderRun's.
#include <algorithm>
#include <utility>

#include "learn/learner.h"

namespace graft {
namespace {

class EncoderLearner : public Learner {
 public:
  explicit EncoderLearner(DistillSettings settings)
      : study_(MakeDistillLearner(std::move(settings))) {}

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
    return std::max(study_->ExampleTokensMax(window_tokens), window_tokens);
  }
  bool writes() const override { return true; }
  int32_t TeacherTokensMax(int32_t window_tokens) const override {
    return study_->TeacherTokensMax(window_tokens);
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

std::unique_ptr<Learner> MakeEncoderLearner(DistillSettings settings) {
  return std::make_unique<EncoderLearner>(std::move(settings));
}

}  // namespace graft
