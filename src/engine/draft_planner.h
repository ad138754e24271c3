// How many rows of a step are spent on tokens that are foreseen and not yet drawn (PromptLookup).
// The step draws after each of them too, as long as the draw before was what was foreseen: the
// tokens are those that would have been drawn one by one, several a step. A row is worth it where
// the chance that its token comes is larger than what the row costs, measured by what the step's
// tokens cost otherwise. Engine thread only.
#pragma once

#include <cstdint>

#include "engine/cold_start_choice.h"
#include "engine/sequences.h"
#include "step/step_plan.h"
#include "step/step_result.h"

namespace graft {

// Whether a draw needs nothing of the tokens before it but through the model, so that several can
// be made at once: no penalty counts them and nothing is banned by them.
bool CanDraft(const SamplingParams& sampling);

class DraftPlanner {
 public:
  explicit DraftPlanner(Sequences& sequences) : sequences_(sequences) {}

  // Gives rows of drafts to sequences that decode in this step, out of those that nobody else
  // needs. `rows_left` are of the step's limit.
  void Plan(int32_t rows_left);
  // What a step cost that waited for nothing, so that the next plans know.
  void Observe(const StepPlan& plan, int64_t step_ns);
  // What became of a sequence's drafts.
  void Count(const PlannedSequence& planned, const SequenceResult& result);

 private:
  bool MayDraft(const Sequence& sequence) const;
  int32_t RoomOf(const Sequence& sequence) const;
  void Foresee();
  void Share(int32_t num_rows, int32_t rows_left);
  void Give(Sequence& sequence, int32_t count);

  // A sequence that could have one draft more.
  struct Candidate {
    double chance = 0.0;  // that it gets as far as the next draft's token
    int32_t count = 0;    // drafts so far
    Sequence* sequence = nullptr;
    bool operator<(const Candidate& other) const { return chance < other.chance; }
  };

  Sequences& sequences_;
  StepCost costs_;                     // of steps in which nobody reads a prompt
  std::vector<Candidate> candidates_;  // a heap, the best first
};

}  // namespace graft
