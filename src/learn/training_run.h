// TrainingRun: one adapter's way through its examples, step by step: which examples, at which rate,
// what is held out, which step was best. A step depends only on the settings, the examples and its
// own number, so a run that goes on from a checkpoint ends with the same bits. Passes that only
// look, before the first step, between steps and after the last, go on from a checkpoint, too.
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
  int32_t best_step = 0;  // the adapter has this step's numbers
};

// Tells apart what runs learn and look at: texts that are written anew may be others.
std::string HashOfExamples(const LearnerData& data);

class TrainingRun {
 public:
  // Adds an adapter to the trainer, which is borrowed. `identity` names all that the run depends on
  // besides its examples: a checkpoint of another identity is not taken. Virtual tokens begin with
  // data.text, which has at least as many tokens, unless data.begins has their numbers.
  TrainingRun(Trainer& trainer, LearnerData data, const LearnerRates& rates,
              const TrainedShape& shape, uint64_t seed, std::string identity);

  // Called between two batches of a pass that only looks. A failure ends the pass, and Begin, Look
  // or Finish returns it; called again, it goes on behind that batch. A checkpoint may be made
  // here.
  void set_on_batch(std::function<Status()> on_batch) { on_batch_ = std::move(on_batch); }

  // Computes the losses before the first step, unless Resume did. Only Resume may come before it.
  Status Begin();
  bool is_done() const { return state_.step == num_steps_; }
  int32_t step() const { return state_.step; }
  int32_t num_steps() const { return num_steps_; }
  // Changes with everything that a checkpoint has: steps, and what passes that only look have seen.
  int64_t progress() const;
  double last_loss() const { return state_.last_loss; }
  // Looks at what is held out, as far as a step has not done it. Mostly nothing is left to look at.
  Status Look();
  // Takes the best numbers, and computes the losses after training.
  Status Finish();
  const TrainingScores& scores() const { return scores_; }
  // Null if the adapter has none.
  TrainedLora* lora() { return trainer_.lora(adapter_); }
  TrainedPrompt* prompt() { return trainer_.prompt(adapter_); }
  int32_t adapter() const { return adapter_; }

  Status SaveCheckpoint(const std::string& path);
  // Returns false if there is no checkpoint that fits, but another run's or one of other examples.
  // Fails if it cannot be read for now.
  Result<bool> Resume(const std::string& path);

  // For StepTogether: the step's examples and rate, and a call with its loss.
  void AddExamples(std::vector<const TrainingExample*>* examples);
  Trainer::Update Update() const;
  void OnStep(const TrainingLoss& loss);

 private:
  // The numbers that make the adapter; and those with the moments, which make its state.
  std::vector<CheckpointPart> Parameters();
  std::vector<CheckpointPart> Numbers();
  void Refresh();
  bool begins_as_another() const {
    return data_.begins.lora != nullptr || !data_.begins.prompt.empty();
  }
  // How many visits of `kept` come before this pass. Later passes have more, evenly spread, because
  // the document's examples that follow a visit undo what it did.
  int64_t KeptBefore(int64_t pass) const;
  // How many visits of all examples come before it.
  int64_t VisitsBefore(int64_t pass) const;
  void OrderPass(int64_t pass);

  // A mean over the rows of examples, as far as a pass over them has come.
  struct Mean {
    double tokens = 0.0;  // a sum
    int64_t num_rows = 0;
    size_t next = 0;  // index of an example
    TrainingLoss loss() const;
  };
  // What a checkpoint has of a run besides the adapter's numbers.
  struct State {
    int32_t step = 0;
    double last_loss = 0.0;
    bool has_begun = false;    // `before` is known, and virtual tokens have begun
    bool is_look_due = false;  // the last step is to be followed by a look at what is held out
    double best_loss = 0.0;    // on what is held out; the trainer keeps that step's numbers
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
  std::vector<const TrainingExample*> order_;  // the examples of pass order_pass_
  int64_t order_pass_ = -1;
};

// One step of every run that is not done, in one forward and backward.
void StepTogether(Trainer& trainer, std::span<TrainingRun* const> runs);

}  // namespace graft
