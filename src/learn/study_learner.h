// What learners share that are taught by distill's texts and differ in what they train: the texts,
// and what these take. Main thread.
#pragma once

#include <memory>
#include <utility>

#include "learn/learner.h"

namespace graft {

class StudyLearner : public Learner {
 public:
  explicit StudyLearner(DistillSettings settings)
      : study_(MakeDistillLearner(std::move(settings))) {}

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
  // The virtual tokens begin from the document's own.
  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* writer) override {
    ASSIGN_OR_RETURN(LearnerData data, study_->Prepare(input, writer));
    data.text = input.tokens;
    return data;
  }

 private:
  const std::unique_ptr<Learner> study_;
};

}  // namespace graft
