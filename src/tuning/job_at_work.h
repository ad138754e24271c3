// JobAtWork: one job on its way from a file to an adapter that is served. One thread: JobRunner's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "learn/training_run.h"
#include "tuning/engine_writer.h"
#include "tuning/job_runner.h"
#include "tuning/recipe.h"

namespace graft {

class JobAtWork {
 public:
  // What a failure is about: the file, or how it was to be learned.
  enum class Stage : uint8_t { kReading, kTraining };

  // Everything is borrowed but the job.
  JobAtWork(const JobRunnerParts& parts, const JobRunnerSettings& settings, LearningJob job);

  // kCancelled: its owner wants it so; kAborted: it goes on later, or elsewhere: the server ends,
  // another tenant's job has its turn, another runner has the job, or something is away or full
  // that may not be a moment later (base/fault.h). After any other end its checkpoints are of no
  // more use. std::bad_alloc where memory runs out.
  Status Run();

  Stage stage() const { return stage_; }
  // After kAborted: it made way for another tenant's job.
  bool made_way() const { return made_way_; }
  // After kAborted: there was no memory for what was learned.
  bool lacks_memory() const { return lacks_memory_; }
  // With what is known of it by now.
  const LearningJob& job() const { return job_; }
  std::string folder() const { return settings_.adapters + "/" + job_.folder_name(); }

 private:
  Status Begin();
  Result<Document> ReadDocument();
  Result<std::unique_ptr<Learner>> MakeItsLearner();
  // What the host lacks beside a GPU is what others have for now. The job waits for it where it had
  // enough once: it has a checkpoint. Else kResourceExhausted.
  Status LackOfHost(const Status& status) const;
  // What the base writes goes through the engine, which may take less than the model would.
  Status CheckTexts(const Learner& learner, const LearnerInput& input) const;
  Status CheckLength(const Learner& learner, const LearnerInput& input);
  Result<LearnerData> Prepare(Learner& learner, const LearnerInput& input, int64_t bytes_max);
  Status Train(TrainingRun& run, Trainer& trainer);
  Status MakeSteps(TrainingRun& run, Trainer& trainer);
  // Whether the job is to go on; outside of a Piece.
  Status CheckWanted();
  // The same within one, behind a batch that is only looked at.
  Status BetweenBatches(TrainingRun& run);
  // kAborted where the job has had its turn, got on in it, and another tenant's waits. A job that
  // made way before anything of it is kept would begin at the same place each time.
  Status CheckTurn();
  // Something new of the job is kept, and the next run of it will find that.
  void GetOn();
  void TellStep(const TrainingRun& run, double seconds_a_step);
  bool IsCheckpointDue() const;
  // A checkpoint that is not made costs steps, not the job; only one that the job's store refuses
  // is an end.
  Status SaveCheckpoint(TrainingRun& run);
  Status Publish(TrainingRun& run, const OrderedJson& origin);
  void TellWhatIsKnown(const AdapterInfo& adapter);
  // The settings for texts that `adapter` ("": the base) writes while `goes_on` holds.
  WriterSettings WriterOf(const std::function<bool()>& goes_on, const std::string& adapter);
  void Tell(const std::string& message, const Json& data);
  void Tell(const std::string& message);
  std::string texts_folder() const { return settings_.checkpoints + "/" + job_.id + ".texts"; }

  const JobRunnerParts& parts_;
  const JobRunnerSettings& settings_;
  LearningStore& store_;
  LearningJob job_;
  LearnRecipe recipe_;
  std::vector<AskedQuestion> asked_;  // that the adapter is not taught
  uint64_t next_writer_id_;
  Stage stage_ = Stage::kReading;
  bool made_way_ = false;
  bool got_on_ = false;  // in this turn: it made a step, or texts of it are kept
  bool lacks_memory_ = false;
  int64_t turn_ns_ = 0;    // when it began to get on: to write, or to make steps
  int64_t looked_ns_ = 0;  // for whether others wait
  int64_t saved_ns_ = 0;
  int64_t saved_progress_ = 0;  // of the run, as its checkpoint has it
  // What the job's checkpoint had is in its run: before, one of the run would take its place.
  bool has_resumed_ = false;
  bool has_warned_ = false;
};

// The recipe that a job's method asks for; kInvalidArgument for a learner that there is not.
Result<LearnRecipe> RecipeOf(const LearningJob& job);

}  // namespace graft
