// JobRunner: the thread that does learning jobs, one at a time, beside the serving. It computes in
// pieces of Turns, and the server's own engine writes its texts. A job that is interrupted, by the
// server's end or a kill, continues from its last checkpoint and gives the same bits. Made and
// destroyed on the main thread.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "base/device_turns.h"
#include "base/turns.h"
#include "jobs/learning_jobs.h"
#include "request/adapter_catalog.h"
#include "request/generator.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"
#include "tuning/learning_options.h"
#include "tuning/served_encoder.h"

namespace graft {

struct JobRunnerParts {
  LearningJobs& jobs;
  LoadedModel& model;
  const Tokenizer& tokenizer;
  AdapterCatalog& catalog;
  Generator& generator;
  Stream& stream;  // that training runs on
  // With the server's steps: on the CPU by the first, on a GPU by the other; else null.
  Turns* turns = nullptr;
  DeviceTurns* device_turns = nullptr;
  ServedEncoder* encoder = nullptr;  // null: the server has none
};

struct JobRunnerSettings {
  std::string model_dir;
  BaseIdentity base;
  std::string adapters;     // folder of what was learned, a folder for each job
  std::string checkpoints;  // folder of files of jobs that are not finished
  LearningOptions options;
};

class JobRunner {
 public:
  JobRunner(JobRunnerParts parts, JobRunnerSettings settings);
  ~JobRunner();  // Stop()s
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  void Start();
  // Ends the thread, and the job that runs with its step: it is left to the next start.
  void Stop();

 private:
  void Loop();
  void RunJob(LearningJob job);
  // It goes on later, or elsewhere. By a fault of its own it counts as begun without an end.
  void LeaveJob(const LearningJob& job, const std::string& why, bool is_fault);
  // Writes what became of the job, as often as it takes. False: it is another runner's by now, or
  // left to the next start.
  bool Settle(const LearningJob& job, const std::string& message);
  void RemoveCheckpoints(const std::string& job) const;

  const JobRunnerParts parts_;
  const JobRunnerSettings settings_;
  std::thread thread_;
  int num_faults_ = 0;  // one after the other, for which jobs were left
};

}  // namespace graft
