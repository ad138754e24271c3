// JobAtWork: one job on its way from a file to an adapter that is served. One thread: JobRunner's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/json_fwd.h"
#include "learn/training_run.h"
#include "tuning/job_runner.h"
#include "tuning/recipe.h"

namespace graft {

class JobAtWork {
 public:
  enum class Stage : uint8_t { kReading, kTraining };

  // Everything is borrowed but the job.
  JobAtWork(const JobRunnerParts& parts, const JobRunnerSettings& settings, LearningJob job);

  // kCancelled: its owner wants it so; kAborted: it goes on later, or elsewhere: the server ends,
  // the store is away, or another runner has the job. After any other end its checkpoints are of
  // no more use. std::bad_alloc where memory runs out.
  Status Run();

  Stage stage() const { return stage_; }
  // With what is known of it by now.
  const LearningJob& job() const { return job_; }
  std::string folder() const { return settings_.adapters + "/" + job_.folder_name(); }

 private:
  Status Begin();
  Result<LearnerData> Prepare(Learner& learner, const LearnerInput& input);
  Status Train(TrainingRun& run, Trainer& trainer);
  // Between two steps: whether the job is to go on.
  Status CheckWanted();
  void TellStep(const TrainingRun& run, double seconds_a_step);
  Status SaveCheckpoint(TrainingRun& run);
  Status Publish(TrainingRun& run, const OrderedJson& origin);
  void Tell(const std::string& message, const Json& data);
  void Tell(const std::string& message);

  const JobRunnerParts& parts_;
  const JobRunnerSettings& settings_;
  LearningStore& store_;
  LearningJob job_;
  LearnRecipe recipe_;
  Stage stage_ = Stage::kReading;
};

// The recipe that a job's method asks for; kInvalidArgument for a learner that there is not.
Result<LearnRecipe> RecipeOf(const LearningJob& job);

}  // namespace graft
