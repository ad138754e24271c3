// DraftPlanner decides how many rows of a step are spent on drafts: tokens that PromptLookup
// predicts and that are not drawn yet. The step draws after each draft, too, as long as the draw
// before was the draft. So the tokens are those that would have been drawn one by one, but several
// a step. A draft is worth its row if the chance that its token comes is larger than the row's
// cost, measured in tokens of the step. Drafts are left out if steps without them make tokens
// faster, because an executor may begin such steps ahead. This is decided for each step anew, since
// it depends on how many of its sequences predict anything. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

  // Gives rows of drafts to sequences that decode in this step, out of those that nothing else
  // needs. `rows_left` are of the step's limit.
  void Plan(int32_t rows_left);
  // Whether the step after the one that runs is likely to be faster by drafts, which need the
  // tokens of the one that runs, than if it were begun ahead. `planned` are all that run.
  bool AreWorthWaitingFor(std::span<Sequence* const> planned);
  // What a step cost that waited for nothing, so that the next plans know; from the end of the
  // step before on.
  void Observe(const StepPlan& plan, int64_t step_ns);
  // What became of a sequence's drafts.
  void Count(const PlannedSequence& planned, const SequenceResult& result);

 private:
  // What becomes of a step by the drafts that are chosen for it.
  struct Choice {
    int32_t num_rows = 0;
    int32_t num_drafts = 0;
    double tokens = 0.0;  // that it is likely to draw
  };

  bool MayDraft(const Sequence& sequence) const;
  int32_t RoomOf(const Sequence& sequence) const;
  // Whether the sequence has a next token that is foreseen.
  bool Foresee(Sequence& sequence);
  Choice Choose(int32_t num_rows, int32_t rows_left);
  bool Pays(const Choice& choice) const;
  // Whether it pays; sees to the trials.
  bool Decide(const Choice& choice);
  void Give(Sequence& sequence, int32_t count);

  // A sequence that could have one draft more.
  struct Candidate {
    double chance = 0.0;  // that it gets as far as the next draft's token
    int32_t count = 0;    // drafts so far
    Sequence* sequence = nullptr;
    bool operator<(const Candidate& other) const { return chance < other.chance; }
  };

  Sequences& sequences_;
  // The costs of steps without rows of prompts: of those without drafts (only those begun ahead, if
  // any are), and of those with drafts.
  StepCost single_costs_, draft_costs_;
  bool has_run_ahead_ = false;
  bool has_drafted_ = false;  // a step before had drafts
  int32_t steps_to_trial_ =
      0;                     // without drafts, until what drafts cost is learned anew; 0: not due
  int32_t trial_steps_;      // so many the next time
  double acceptance_ = 0.7;  // of all sequences' forecasts: a match is likely to be meant
  std::vector<Candidate> candidates_;  // a heap, the best first
  std::vector<Candidate> given_;       // those that can have no more; scratch
};

}  // namespace graft
