// TrainSteps: the steps of a training, with checkpoints on the way, for whatever is trained, and
// TrainingHost, which is the command or the server around it. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace graft {

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

}  // namespace graft
