// How many rows of a step are spent on tokens that are foreseen and not yet drawn (PromptLookup).
// The step draws after each of them too, as long as the draw before was what was foreseen: the
// tokens are those that would have been drawn one by one, several a step. A row is worth it where
// the chance that its token comes is larger than what the row costs, measured by what the step's
// tokens cost otherwise; and all of a step's drafts are, where tokens come faster by them than in
// steps without, which an executor may begin ahead. Engine thread only.
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
  explicit DraftPlanner(Sequences& sequences);

  // Gives rows of drafts to sequences that decode in this step, out of those that nobody else
  // needs. `rows_left` are of the step's limit.
  void Plan(int32_t rows_left);
  // Drafts did not pay of late: what is foreseen is no reason not to begin the next step ahead.
  // Now and then it is asked again whether they do.
  bool is_resting() const { return num_to_rest_ > 0; }
  // What a step cost that waited for nothing, so that the next plans know; from the end of the
  // step before on.
  void Observe(const StepPlan& plan, int64_t step_ns);
  // What became of a sequence's drafts.
  void Count(const PlannedSequence& planned, const SequenceResult& result);

 private:
  bool MayDraft(const Sequence& sequence) const;
  int32_t RoomOf(const Sequence& sequence) const;
  void Foresee();
  void Share(int32_t num_rows, int32_t rows_left);
  bool Pays(int32_t num_rows, int32_t num_drafts, double tokens) const;
  void Give(Sequence& sequence, int32_t count);

  // A sequence that could have one draft more.
  struct Candidate {
    double chance = 0.0;  // that it gets as far as the next draft's token
    int32_t count = 0;    // drafts so far
    Sequence* sequence = nullptr;
    bool operator<(const Candidate& other) const { return chance < other.chance; }
  };

  Sequences& sequences_;
  // Of steps in which nobody reads a prompt: those without drafts, and those with.
  StepCost single_costs_, draft_costs_;
  bool has_drafted_ = false;           // a step before had drafts
  int32_t num_to_rest_ = 0;            // steps without drafts, until they are tried again
  int32_t rest_steps_;                 // so many the next time
  std::vector<Candidate> candidates_;  // a heap, the best first
  std::vector<Candidate> given_;       // those that can have no more; scratch
};

}  // namespace graft
