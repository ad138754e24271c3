// LearningService: files, jobs and the learning thread, for a server that also serves; all in one
// folder that the operator names. A cluster's runner has only the thread: files and jobs belong to
// the cluster, and the folder is shared. Made and destroyed on the main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/device_turns.h"
#include "base/thread_pool.h"
#include "base/turns.h"
#include "jobs/learning_jobs.h"
#include "jobs/sqlite_learning_store.h"
#include "options/command.h"
#include "runtime/runtime.h"
#include "tensor/stream_turns.h"
#include "text/tokenizer.h"
#include "tuning/job_runner.h"
#include "tuning/learning_options.h"
#include "tuning/served_encoder.h"

namespace graft {

OptionGroup LearningOptionGroup(LearningOptions& options);
// Those of a cluster's runner, which learns, and of its frontend, which takes files and jobs.
std::vector<Option> LearningRunnerRows(LearningOptions& options);
std::vector<Option> LearningFrontendRows(LearningOptions& options);

// What jobs may ask for, and the limits of `options`; the rest is the caller's.
LearningSetup LearningSetupOf(const LearningOptions& options, const std::string& base_model);

class LearningService {
 public:
  // Null without a folder. Before the model is read: takes the folder for itself unless it is
  // `shared`, and tells `served` of it and of the memory.
  static Result<std::unique_ptr<LearningService>> Create(const LearningOptions& options,
                                                         RuntimeOptions* served,
                                                         bool shared = false);
  ~LearningService();

  // Once the model is read, and before its runtime is made. Borrows the model.
  void SetModel(LoadedModel& model);
  // Lists what was learned, and begins to learn. Borrows both, until Stop.
  Status Start(Runtime& runtime, const Tokenizer& tokenizer);
  // Where the folder is shared: begins to learn the jobs of `store`, which it borrows, too.
  Status StartShared(Runtime& runtime, const Tokenizer& tokenizer, LearningStore& store);
  // Why nothing is learned here, or OK; once the model is set.
  Status CheckTrains() const;
  // Ends the thread that learns, while the engine still runs.
  void Stop();

  LearningJobs& jobs() { return *jobs_; }

 private:
  LearningService(const LearningOptions& options, std::string folder);
  Status Lock();
  void MakeTurns(LoadedModel& model);
  // Why no encoder makes adapters here, or OK.
  Status CheckEncodes() const;
  Status OpenServedEncoder(const Tokenizer& tokenizer);
  void StartThread(Runtime& runtime, const Tokenizer& tokenizer, const BaseIdentity& base);
  Status ListLearned(Runtime& runtime, const BaseIdentity& base);
  Status Remove(Runtime& runtime, const LearningJob& job) const;
  Stream& LearningStream() { return stream_ == nullptr ? model_->stream : stream_->get(); }
  std::string adapters() const { return folder_ + "/adapters"; }

  const LearningOptions options_;
  const std::string folder_;  // links resolved
  std::string model_folder_;
  int lock_fd_ = -1;
  LoadedModel* model_ = nullptr;
  prometheus::Histogram* piece_seconds_ = nullptr;
  std::unique_ptr<Turns> turns_;  // on a CPU; on a GPU the next four
  // What the host computes for a GPU's training: the engine has the model's threads meanwhile.
  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<OwnedStream> stream_;
  std::unique_ptr<StreamTurns> marks_;
  std::unique_ptr<DeviceTurns> device_turns_;
  std::unique_ptr<SqliteLearningStore> store_;  // null where the folder is shared
  std::unique_ptr<LearningJobs> jobs_;
  std::unique_ptr<ServedEncoder> encoder_;  // null: none, or nothing is learned here
  std::unique_ptr<JobRunner> runner_;
};

}  // namespace graft
