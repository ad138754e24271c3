// JobAtWork: one job on its way from a file to an adapter that is served. One thread: JobRunner's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/json_fwd.h"
#include "tuning/engine_writer.h"
#include "tuning/job_runner.h"
#include "tuning/learning_plan.h"
#include "tuning/training_group.h"

namespace graft {

class JobAtWork : private TrainingHost {
 public:
  // What a failure is about: the file, those of keep_text, or how it was to be learned.
  enum class Stage : uint8_t { kReading, kReadingKept, kTraining };

  // Everything is borrowed but the job.
  JobAtWork(const JobRunnerParts& parts, const JobRunnerSettings& settings, LearningJob job);

  // kCancelled: the owner cancelled the job. kAborted: the job continues later or elsewhere,
  // because the server ends, another tenant's job has its turn, another runner has the job, or
  // there was a transient fault (base/fault.h). After any other end the job's checkpoints are
  // useless. std::bad_alloc if memory runs out.
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
  // A file's text; its notes are told.
  Result<Document> ReadDocument(const std::string& file);
  Status MakeItsPlan();
  // What the host lacks beside a GPU is what others have for now. The job waits for it where it had
  // enough once: it has a checkpoint. Else kResourceExhausted.
  Status LackOfHost(const Status& status) const;
  Status CheckLengths();
  Status Prepare(const LearnSizes& sizes, int64_t bytes_max);
  Status CheckMemoryIsAnswered(int32_t memory_tokens) const;
  // With room for the document. The server's client is told what it lacks.
  Result<EncoderAtWork*> Encoder(int32_t compression);
  // How the encoder reads: a job that is no longer wanted ends with the window that is read.
  EncoderAtWork::Compute ComputeWhileWanted();
  // The document becomes an adapter by the server's encoder.
  Status Encode();
  // It becomes that which is learned further.
  Status BeginByEncoder();
  Status Train();
  Status Learn(TrainingGroup& group);
  // Whether the job is to go on; outside of a Piece.
  Status CheckWanted();
  // kAborted where the job has had its turn, got on in it, and another tenant's waits. A job that
  // made way before anything of it is kept would begin at the same place each time.
  Status CheckTurn();
  // Something new of the job is kept, and the next run of it will find that.
  void GetOn();
  // `told`: the figures of the job's last event.
  Status Publish(const OrderedJson& provenance, const LearnedAdapter& learned, const Json& told);
  void TellWhatIsKnown(const AdapterInfo& adapter);
  // The settings for texts that `adapter` ("": the base) writes while `goes_on` holds.
  WriterSettings WriterOf(const std::function<bool()>& goes_on, const std::string& adapter);

  // TrainingHost: what the training asks of the server around it.
  Status Compute(const std::function<Status()>& part) override;
  Status BetweenBatches(const std::function<Status()>& save) override;
  void OnBegin(const std::string& name, const TrainingProgress& at, bool resumed) override;
  void OnSteps(const TrainingProgress& at) override;
  Status OnStep(const TrainingProgress& at) override;
  Status OnCheckpoint(const std::string& name, const TrainingProgress& at,
                      const Status& saved) override;
  void TellStep(const TrainingProgress& at, double seconds_a_step);

  void Tell(const std::string& message, const Json& data = {}, const char* level = "info");
  std::string texts_folder() const { return settings_.checkpoints + "/" + job_.id + ".texts"; }

  const JobRunnerParts& parts_;
  const JobRunnerSettings& settings_;
  LearningStore& store_;
  LearningJob job_;
  LearningPlan plan_;  // of one document
  uint64_t next_writer_id_;
  Stage stage_ = Stage::kReading;
  bool made_way_ = false;
  bool got_on_ = false;  // in this turn: it made a step, or texts of it are kept
  bool lacks_memory_ = false;
  int64_t turn_ns_ = 0;    // when it began to get on: to write, or to make steps
  int64_t looked_ns_ = 0;  // for whether others wait
  int32_t first_step_ = 0;
  int64_t saved_progress_ = 0;  // of the run, as its checkpoint has it
  // What the job's checkpoint had is in its run: before, one of the run would take its place.
  bool has_resumed_ = false;
  bool has_warned_ = false;
};

}  // namespace graft
