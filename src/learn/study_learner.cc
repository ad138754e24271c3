// Learners that are taught by distill's texts and differ in what they train.
//
// memory: virtual tokens that stand for one document in front of every prompt. They begin as the
// embeddings of tokens spread over the document and are trained directly, by the teacher of
// distill: the base that has the document in its context. LoRA beside them is optional.
//
// prefix: Cartridges. Keys and values of every layer stand in front of every prompt. They begin as
// what the base computes of the document's first tokens, so that untrained they are the document
// cut short, and are taught as distill's adapter is; the first position never moves. The base
// itself learns nothing, so that what it could do before it still does.
//
// encoder: its rates and sizes alone. It is taught over a corpus (corpus_run.h).
#include <memory>
#include <utility>

#include "learn/learner.h"

namespace graft {
namespace {

struct StudyKind {
  std::string_view name;
  LearnerRates rates;
  LearnerParts parts;
  // Virtual tokens begin with the text that the base's texts begin with, because all rows attend to
  // the first token. Else they begin with the document's own tokens.
  bool has_start = false;
};

constexpr StudyKind kMemory = {
    .name = "memory",
    .rates = {.learning_rate = 1e-3,
              .prompt_learning_rate = 2e-2,
              .passes = 16,
              .batch = 8,
              .keeps_best = true},
    .parts = {.rank = 0, .virtual_tokens = 32, .kind = VirtualTokenKind::kEmbedding}};
constexpr StudyKind kPrefix = {
    .name = "prefix",
    .rates = kMemory.rates,
    .parts = {.rank = 0, .virtual_tokens = 128, .kind = VirtualTokenKind::kKeysValues},
    .has_start = true};
// The rank of the encoder's and of the decoder's LoRA, and the virtual tokens behind a window. It
// is taught over a corpus (corpus_run.h).
constexpr StudyKind kEncoder = {
    .name = "encoder",
    .rates = {.learning_rate = 1e-3,
              .prompt_learning_rate = 5e-3,
              .passes = 0,
              .steps = 10'000,
              .batch = 16},
    .parts = {.rank = 16, .virtual_tokens = 16, .kind = VirtualTokenKind::kEmbedding}};

class StudyLearner : public Learner {
 public:
  StudyLearner(const StudyKind& kind, DistillSettings settings)
      : kind_(kind), study_(MakeDistillLearner(std::move(settings))) {}

  std::string_view name() const override { return kind_.name; }
  LearnerRates rates() const override { return kind_.rates; }
  LearnerParts parts() const override { return kind_.parts; }
  int32_t ExampleTokensMax(int32_t window_tokens) const override {
    return study_->ExampleTokensMax(window_tokens);
  }
  bool writes() const override { return true; }
  int32_t TeacherTokensMax(int32_t window_tokens) const override {
    return study_->TeacherTokensMax(window_tokens);
  }
  LearnerDataSize DataMax(const LearnerInput& input, int32_t num_choices) const override {
    return study_->DataMax(input, num_choices);
  }
  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* writer) override {
    ASSIGN_OR_RETURN(LearnerData data, study_->Prepare(input, writer));
    if (kind_.has_start) data.text = input.start;
    data.text.insert(data.text.end(), input.tokens.begin(), input.tokens.end());
    return data;
  }

 private:
  const StudyKind kind_;
  const std::unique_ptr<Learner> study_;
};

}  // namespace

std::unique_ptr<Learner> MakeMemoryLearner(DistillSettings settings) {
  return std::make_unique<StudyLearner>(kMemory, std::move(settings));
}

std::unique_ptr<Learner> MakePrefixLearner(DistillSettings settings) {
  return std::make_unique<StudyLearner>(kPrefix, std::move(settings));
}

std::unique_ptr<Learner> MakeEncoderLearner(DistillSettings settings) {
  return std::make_unique<StudyLearner>(kEncoder, std::move(settings));
}

}  // namespace graft
