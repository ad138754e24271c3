// TrainingRun: one adapter's way through its examples, step by step: which examples, at which rate,
// what is held out, which step was best. A step depends on the settings, the examples and its own
// number alone, so a run that goes on from a checkpoint ends with the same bits. Several runs make
// their steps together (StepTogether). One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "learn/checkpoint.h"
#include "learn/learner.h"
#include "learn/trainer.h"

namespace graft {

// Losses are means over tokens, in nats: those of the tokens alone, without hidden states.
struct TrainingScores {
  double before = 0.0, after = 0.0;  // on what was trained on: the base's, and the adapter's
  double held_out_before = 0.0, held_out_after = 0.0;
  int64_t num_rows = 0, num_held_out_rows = 0;
  int32_t best_step = 0;  // whose numbers the adapter has
};

class TrainingRun {
 public:
  // Adds an adapter to the trainer, which is borrowed. `identity` names all that the run depends
  // on: a checkpoint of another one is not taken. Virtual tokens begin with data.text, of which
  // there are at most as many as it has tokens.
  TrainingRun(Trainer& trainer, LearnerData data, const LearnerRates& rates,
              const TrainedShape& shape, uint64_t seed, std::string identity);

  // The losses before the first step. Before all else, unless Resume did.
  void Begin();
  bool is_done() const { return step_ == num_steps_; }
  int32_t step() const { return step_; }
  int32_t num_steps() const { return num_steps_; }
  double last_loss() const { return last_loss_; }
  // Takes the best numbers, and the losses after.
  void Finish();
  const TrainingScores& scores() const { return scores_; }
  // Null where the adapter has none.
  TrainedLora* lora() { return trainer_.lora(adapter_); }
  TrainedPrompt* prompt() { return trainer_.prompt(adapter_); }
  int32_t adapter() const { return adapter_; }

  Status SaveCheckpoint(const std::string& path);
  // false: there is none, or it is another run's.
  Result<bool> Resume(const std::string& path);

  // For StepTogether: the step's examples and rate, and what it came to.
  void AddExamples(std::vector<const TrainingExample*>* examples);
  Trainer::Update Update() const;
  void OnStep(const TrainingLoss& loss);

 private:
  // Numbers that make the adapter, and its state.
  std::vector<CheckpointPart> Parameters();
  std::vector<CheckpointPart> State();
  void Refresh();
  // Of `kept`, so many are learned before this pass: more in later passes, evenly within each. What
  // earlier ones do is undone by the document's that follow.
  int64_t KeptBefore(int64_t pass) const;
  // And so many of all.
  int64_t VisitsBefore(int64_t pass) const;
  void OrderPass(int64_t pass);

  TrainingLoss LossOn(const std::vector<TrainingExample>& examples, bool with_adapter);
  void LookAtHeldOut();
  std::string StateJson() const;
  Status ReadState(const std::string& json);

  Trainer& trainer_;
  const int32_t adapter_;
  LearnerData data_;
  const LearnerRates rates_;
  const uint64_t seed_;
  const std::string identity_;
  int32_t step_ = 0;
  int32_t num_steps_ = 0;
  double last_loss_ = 0.0;
  TrainingScores scores_;
  double best_loss_ = 0.0;  // on what is held out; the trainer has that step's numbers
  std::vector<const TrainingExample*> order_;  // of the examples, in order_pass_
  int64_t order_pass_ = -1;
};

// One step of every run that is not done, in one forward and backward.
void StepTogether(Trainer& trainer, std::span<TrainingRun* const> runs);

}  // namespace graft
