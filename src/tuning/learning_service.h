// LearningService: files, jobs and the thread that learns, for a server that serves meanwhile; all
// in one folder that the operator names. Made and destroyed on the main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/turns.h"
#include "jobs/learning_jobs.h"
#include "options/command.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"
#include "tuning/job_runner.h"

namespace graft {

struct LearningOptions {
  std::string folder;  // "": nothing is learned, and nothing is there that was
  double share = 0.0;  // of the time while requests run; 0: nothing is learned
  double gib = 1.0;    // of memory for training
  int checkpoint_seconds = 60;
  int64_t files_mib = 256;
  int64_t files_hours = 30 * 24;
  int jobs_max = 16;
  int adapters_max = 100;
};
OptionGroup LearningOptionGroup(LearningOptions& options);

class LearningService {
 public:
  // Null without a folder. Before the model is read: takes the folder for itself, and tells
  // `served` of it and of the memory.
  static Result<std::unique_ptr<LearningService>> Create(const LearningOptions& options,
                                                         RuntimeOptions* served);
  ~LearningService();

  // Once the model is read, and before its runtime is made. Borrows the model.
  void SetModel(LoadedModel& model);
  // Lists what was learned, and begins to learn. Borrows both, until Stop.
  Status Start(Runtime& runtime, const Tokenizer& tokenizer);
  // Ends the thread that learns, while the engine still runs.
  void Stop();

  LearningJobs& jobs() { return *jobs_; }

 private:
  LearningService(const LearningOptions& options, std::string folder);
  Status Lock();
  Status CheckTrains() const;
  Status ListLearned(Runtime& runtime, const BaseIdentity& base);
  Status Remove(Runtime& runtime, const LearningJob& job) const;
  std::string adapters() const { return folder_ + "/adapters"; }

  const LearningOptions options_;
  const std::string folder_;  // links resolved
  std::string model_folder_;
  int lock_fd_ = -1;
  LoadedModel* model_ = nullptr;
  prometheus::Histogram* piece_seconds_ = nullptr;
  std::unique_ptr<Turns> turns_;
  std::unique_ptr<LearningStore> store_;
  std::unique_ptr<LearningJobs> jobs_;
  std::unique_ptr<JobRunner> runner_;
};

}  // namespace graft
