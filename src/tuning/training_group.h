// TrainingGroup: documents of a plan become adapters in the same steps: resumed from checkpoints,
// trained, judged and handed on. A document that fails costs no other. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/json_fwd.h"
#include "learn/learned_folder.h"
#include "learn/trainer.h"
#include "learn/training_run.h"
#include "tuning/learning_plan.h"
#include "tuning/training_steps.h"

namespace graft {

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
  // The losses after. Each adapter that is better than none goes to `write`, by its place among
  // the documents: where another follows, on a thread of its own beside the device's work on that
  // one. The checkpoint of one that is no better is removed: it would end the same. The first
  // failure of a document is returned once all are done.
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
