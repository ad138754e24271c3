// LearningJobs: what clients may ask of learning, and what the thread that learns asks in turn.
// Over a LearningStore; limits hold per tenant. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "jobs/learning_records.h"
#include "jobs/learning_store.h"

namespace graft {

struct LearningLimits {
  int64_t tenant_file_bytes_max = int64_t{256} << 20;
  int64_t file_seconds = 30 * 24 * 3600;  // that a file is kept where its owner does not say
  int32_t tenant_jobs_max = 16;           // not finished
  int32_t tenant_adapters_max = 100;
  int64_t tenant_adapter_bytes_max = int64_t{16} << 30;
  int64_t job_tokens_max = 500'000'000;  // that a job learns from, over all passes
};

struct LearningSetup {
  LearningLimits limits;
  std::string base_model;             // the name that jobs give
  std::vector<std::string> learners;  // the first is the default
  std::function<Status()> trains;     // why nothing is trained here, or OK; empty: OK
  std::function<Status()> encodes;    // why no encoder makes adapters, or OK; empty: OK
  // This process trains the jobs; otherwise the store alone cancels them.
  bool is_own = true;
  // How often jobs of other processes are looked for; 0: there are none.
  std::chrono::milliseconds look{0};
  // Makes a learned adapter unknown and deletes it.
  std::function<Status(const LearningJob& job)> remove_adapter;
};

// "ft:BASE:SUFFIX:" and digits of the job's id.
std::string LearnedName(const LearningJob& job);

class LearningJobs {
 public:
  // Borrows the store.
  LearningJobs(LearningStore& store, LearningSetup setup);

  const LearningSetup& setup() const { return setup_; }
  // Why no job is trained, or OK.
  Status trains() const { return setup_.trains ? setup_.trains() : OkStatus(); }
  LearningStore& store() { return store_; }

  // kInvalidArgument: no document, by reason; a PDF is only read by its job. `seconds` 0: the
  // limits'. Reads the content, which takes its time where it is long.
  Result<LearningFile> Upload(const std::string& tenant, const std::string& name,
                              const std::string& purpose, const std::string& content,
                              int64_t seconds);
  // The order's tenant, training_file, suffix, metadata, seed and method.
  Result<LearningJob> Create(LearningJob order);
  Result<LearningJob> Cancel(const std::string& tenant, const std::string& id);
  // Whosever it is.
  Result<LearningJob> CancelAnybodys(const std::string& id);
  // kNotFound.
  Status DeleteAdapter(const std::string& tenant, const std::string& name);

  // For the thread that learns: waits for a job; nothing once Stop was called.
  std::optional<LearningJob> WaitForJob();
  void Stop();
  bool is_stopping();
  // Whether Stop was called by then.
  bool WaitForStop(std::chrono::seconds time);

 private:
  // Whether a document may be read of it.
  Status CheckContent(const std::string& name, const std::string& content);
  // kInvalidArgument where the file's text alone is more than a job may learn from.
  Status CheckLength(const LearningJob& order, const LearningFile& file) const;
  // Whether the files that an adapter is to leave alone are there and no more than one document.
  Status CheckKept(const LearningJob& order);
  void Ring();

  LearningStore& store_;
  const LearningSetup setup_;
  std::mutex reading_;  // a large file
  std::mutex mutex_;
  std::condition_variable rung_;
  bool has_news_ = true;  // there may be a job
  bool is_stopping_ = false;
};

}  // namespace graft
