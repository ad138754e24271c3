// TrainingGroup: documents of a plan become adapters in the same steps: resumed from checkpoints,
// trained, judged and handed on. A document that fails costs no other. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json_fwd.h"
#include "base/status.h"
#include "learn/learned_folder.h"
#include "learn/trainer.h"
#include "learn/training_run.h"
#include "tuning/learning_plan.h"

namespace graft {

// TrainSteps: the steps of a training, with checkpoints on the way, for whatever is trained, and
// TrainingHost, which is the command or the server around it. One thread.
struct TrainingProgress {
  int32_t step = 0, num_steps = 0;  // of that which has the most left
  double loss = 0.0;                // the last step's; a mean over all that is trained
  int64_t looked_at = 0;            // changes with all that a checkpoint has more of
};

class TrainingHost {
 public:
  virtual ~TrainingHost() = default;

  // Runs a part of the computing: a server's requests have their turns before and behind it.
  virtual Status Compute(const std::function<Status()>& part) { return part(); }
  // Between two batches of losses, within such a part; `save` makes a checkpoint where that is due.
  // A failure ends the training there.
  virtual Status BetweenBatches(const std::function<Status()>& save) { return save(); }
  // For each thing that is trained, before its first step; `resumed`: it goes on from a checkpoint.
  virtual void OnBegin(const std::string& name, const TrainingProgress& at, bool resumed) = 0;
  // Once, where the steps begin.
  virtual void OnSteps(const TrainingProgress& at) = 0;
  // Behind each step. A failure ends the training there.
  virtual Status OnStep(const TrainingProgress& at) = 0;
  // A checkpoint that is not made costs steps, not what is learned: the log has it. A failure ends
  // the training.
  virtual Status OnCheckpoint(const std::string& name, const TrainingProgress& at,
                              const Status& saved);
};

// When a checkpoint is due.
class CheckpointTimer {
 public:
  explicit CheckpointTimer(int seconds) : seconds_(seconds) {}
  bool IsDue() const;
  void Reset() { saved_ns_ = SteadyClock::Get().NowNs(); }

 private:
  const int seconds_;
  int64_t saved_ns_ = SteadyClock::Get().NowNs();
};

// Adapters side by side, or an encoder with its documents.
class TrainedSteps {
 public:
  virtual ~TrainedSteps() = default;
  virtual bool is_done() const = 0;
  virtual TrainingProgress progress() const = 0;
  virtual Status Step() = 0;
  virtual bool is_save_due() const = 0;
  virtual Status Save() = 0;
};

// All steps that are left. The last one is followed by a checkpoint, too: whatever comes behind it
// is then done again from there.
Status TrainSteps(TrainedSteps& trained, TrainingHost& host);

class TrainingGroup : private TrainedSteps {
 public:
  // All is borrowed, and `documents` are some of the plan's, prepared; their data is taken.
  TrainingGroup(const LearningPlan& plan, std::span<LearningDocument> documents,
                const LoadedModel& model, const BaseIdentity& base, Trainer& trainer,
                TrainingHost& host, int checkpoint_seconds);

  // These three in turn. Adds the plan's frozen documents and the adapters to the trainer, and
  // reads their checkpoints. Fails where one cannot be read for now.
  Status Begin();
  // The losses before and all steps.
  Status Train();
  // Computes the losses after training. Each adapter that is better than none goes to `write`, by
  // its place among the documents. If another adapter follows, `write` runs on a thread of its own
  // while the device works on that one. The checkpoint of an adapter that is no better is removed,
  // since it would end the same. The first failure of a document is returned once all are done.
  using Write =
      std::function<Status(size_t place, TrainingRun& run, const LearnedAdapter& adapter)>;
  Status Finish(const Write& write);

  // Writes the checkpoints of all, now.
  Status Save() override;
  // What graft.json says of an adapter that is learned.
  OrderedJson ProvenanceOf(size_t place, const TrainingRun& run) const;

 private:
  struct Member {
    LearningDocument* document;
    CheckpointTimer timer;
    std::unique_ptr<TrainingRun> run = nullptr;
    Status failed = {};
  };

  bool is_done() const override;
  TrainingProgress progress() const override;
  Status Step() override;
  bool is_save_due() const override;
  Status SaveOne(Member& member);
  TrainingProgress ProgressOf(const Member& member) const;
  std::string NameOf(const Member& member) const;
  // It is trained no further.
  void Drop(Member& member, Status why);
  Status CheckLosses();

  const LearningPlan& plan_;
  const LoadedModel& model_;
  const BaseIdentity& base_;
  Trainer& trainer_;
  TrainingHost& host_;
  std::vector<Member> members_;
};

}  // namespace graft
