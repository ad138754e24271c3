// TrainingRun: one adapter's way through its examples, step by step: which examples, at which rate,
// what is held out, which step was best. A step depends on the settings, the examples and its own
// number alone, so a run that goes on from a checkpoint ends with the same bits. Passes that only
// look, before the first step, between two, and after the last, go on from a checkpoint likewise.
// Several runs make their steps together (StepTogether). One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "learn/checkpoint.h"
#include "learn/learner.h"
#include "learn/trainer.h"

namespace graft {

// Losses are means over tokens, in nats.
struct TrainingScores {
  double before = 0.0, after = 0.0;  // on what was trained on: the base's, and the adapter's
  double held_out_before = 0.0, held_out_after = 0.0;
  int64_t num_rows = 0, num_held_out_rows = 0;
  int32_t best_step = 0;  // whose numbers the adapter has
};

// What a run learns and looks at: texts that were written anew may be others.
std::string HashOfExamples(const LearnerData& data);

class TrainingRun {
 public:
  // Adds an adapter to the trainer, which is borrowed. `identity` names all that the run depends
  // on besides its examples: a checkpoint of another one is not taken. Virtual tokens begin with
  // data.text, of which there are at most as many as it has tokens.
  TrainingRun(Trainer& trainer, LearnerData data, const LearnerRates& rates,
              const TrainedShape& shape, uint64_t seed, std::string identity);

  // Asked between two batches of a pass that only looks. A failure ends the pass there, and is what
  // Begin, Look or Finish then returns: who calls it again goes on behind that batch. A checkpoint
  // may be made in it.
  void set_on_batch(std::function<Status()> on_batch) { on_batch_ = std::move(on_batch); }

  // The losses before the first step unless Resume found them. Before all else but Resume.
  Status Begin();
  bool is_done() const { return state_.step == num_steps_; }
  int32_t step() const { return state_.step; }
  int32_t num_steps() const { return num_steps_; }
  // Changes with all that a checkpoint has more of: steps, and what the passes that only look have
  // looked at.
  int64_t progress() const;
  double last_loss() const { return state_.last_loss; }
  // What a step has left to look at, of what is held out; nothing mostly: steps look by themselves.
  Status Look();
  // Takes the best numbers, and the losses after.
  Status Finish();
  const TrainingScores& scores() const { return scores_; }
  // Null where the adapter has none.
  TrainedLora* lora() { return trainer_.lora(adapter_); }
  TrainedPrompt* prompt() { return trainer_.prompt(adapter_); }
  int32_t adapter() const { return adapter_; }

  Status SaveCheckpoint(const std::string& path);
  // false: there is none that fits: it is another run's, or of other examples. Fails where it
  // cannot be read for now.
  Result<bool> Resume(const std::string& path);

  // For StepTogether: the step's examples and rate, and what it came to.
  void AddExamples(std::vector<const TrainingExample*>* examples);
  Trainer::Update Update() const;
  void OnStep(const TrainingLoss& loss);

 private:
  // Numbers that make the adapter, and its state.
  std::vector<CheckpointPart> Parameters();
  std::vector<CheckpointPart> Numbers();
  void Refresh();
  // Of `kept`, so many are learned before this pass: more in later passes, evenly within each. What
  // earlier ones do is undone by the document's that follow.
  int64_t KeptBefore(int64_t pass) const;
  // And so many of all.
  int64_t VisitsBefore(int64_t pass) const;
  void OrderPass(int64_t pass);

  // A mean over the rows of examples, as far as a pass over these has come.
  struct Mean {
    double tokens = 0.0;  // a sum
    int64_t num_rows = 0;
    size_t next = 0;  // example
    TrainingLoss loss() const;
  };
  // What a checkpoint has of a run, besides numbers of its adapter.
  struct State {
    int32_t step = 0;
    double last_loss = 0.0;
    bool has_begun = false;    // `before`, and what virtual tokens begin with
    bool is_look_due = false;  // of what is held out, behind the last step
    double best_loss = 0.0;    // on what is held out; the trainer has that step's numbers
    int32_t best_step = 0;
    Mean before, held_out_before, look, after, held_out_after;
  };
  Status LookOn(const std::vector<TrainingExample>& examples, bool with_adapter, Mean* mean);
  std::string StateJson() const;
  static Result<State> StateOf(const std::string& json);

  Trainer& trainer_;
  const int32_t adapter_;
  LearnerData data_;
  const LearnerRates rates_;
  const uint64_t seed_;
  const std::string identity_;
  std::function<Status()> on_batch_;
  int32_t num_steps_ = 0;
  State state_;
  TrainingScores scores_;
  std::vector<const TrainingExample*> order_;  // of the examples, in order_pass_
  int64_t order_pass_ = -1;
};

// One step of every run that is not done, in one forward and backward.
void StepTogether(Trainer& trainer, std::span<TrainingRun* const> runs);

}  // namespace graft
