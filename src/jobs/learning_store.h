// LearningStore: files and jobs of learning in one SQLite file, which survives a killed process: a
// job that ran is found as the last change left it. Every call names a tenant, and sees that
// tenant's alone, but for those of the thread that learns and of the operator. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "jobs/learning_records.h"
#include "registry/sqlite_database.h"

namespace graft {

class LearningStore {
 public:
  // `path`, or ":memory:". Errors as SqliteDatabase's. `unix_seconds`: any thread asks it.
  static Result<std::unique_ptr<LearningStore>> Open(
      const std::string& path, std::function<int64_t()> unix_seconds = UnixTimeSeconds);

  int64_t now() const { return unix_seconds_(); }

  // Files. One whose time has come is gone, unless a job that is not finished needs it.
  // kResourceExhausted where the tenant's would be more than `tenant_bytes_max` in all.
  Status AddFile(const LearningFile& file, std::string_view content, int64_t tenant_bytes_max);
  // kNotFound.
  Result<LearningFile> FindFile(const std::string& tenant, const std::string& id);
  Result<std::string> FileContent(const std::string& tenant, const std::string& id);
  // kFailedPrecondition while a job that is not finished needs it.
  Status DeleteFile(const std::string& tenant, const std::string& id);
  // The newest first, or the oldest; `purpose` "": any. kNotFound: of query.after.
  Result<Page<LearningFile>> ListFiles(const std::string& tenant, const std::string& purpose,
                                       const PageQuery& query);

  // Jobs. kResourceExhausted where the tenant has `unfinished_max` that are not finished, or with
  // these `adapters_max` adapters; kNotFound where it has not the file.
  Status AddJob(const LearningJob& job, int32_t unfinished_max, int32_t adapters_max);
  Result<LearningJob> FindJob(const std::string& tenant, const std::string& id);
  Result<Page<LearningJob>> ListJobs(const std::string& tenant, const PageQuery& query);
  // A job that waits is cancelled at once, one that runs by the thread that learns.
  // kFailedPrecondition: it is finished.
  Result<LearningJob> Cancel(const std::string& tenant, const std::string& id);
  // Newest first.
  Result<Page<JobEvent>> ListEvents(const std::string& tenant, const std::string& job,
                                    const PageQuery& query);
  Result<Page<JobCheckpoint>> ListCheckpoints(const std::string& tenant, const std::string& job,
                                              const PageQuery& query);
  // Those whose adapters there are, of all tenants.
  Result<std::vector<LearningJob>> ListLearned();
  // The job that learned it. kNotFound.
  Result<LearningJob> FindLearned(const std::string& tenant, const std::string& adapter);
  // The job stays, without an adapter.
  Status ForgetAdapter(const std::string& job);

  // For an operator: all tenants' jobs, at most so many rows.
  Result<JobsOverview> Overview(int32_t rows_max);

  // For the thread that learns.
  // The next job: one that was begun, else the oldest of the tenant whose turn was longest ago.
  Result<std::optional<LearningJob>> NextJob();
  // Everything after created_at but is_cancelled.
  Status Update(const LearningJob& job);
  Result<bool> IsCancelled(const std::string& job);
  Status AddEvent(const std::string& job, JobEvent event);
  // The last ones are kept.
  Status AddCheckpoint(const std::string& job, const JobCheckpoint& checkpoint);

 private:
  explicit LearningStore(std::function<int64_t()> unix_seconds)
      : unix_seconds_(std::move(unix_seconds)), database_("the store of learning") {}

  // These want mutex_ held.
  Status DropExpired();
  Result<int64_t> Count(const char* sql, const std::string& tenant);
  // Where an id stands in the order of its list; `start` for "".
  Result<int64_t> PlaceOf(const char* sql, const std::string& tenant, const PageQuery& query);
  Result<LearningJob> ReadJob(const std::string& tenant, const std::string& id);
  Status DropOldJobs(const std::string& tenant);
  Status Write(const LearningJob& job);
  Status WriteEvent(const std::string& job, const JobEvent& event);
  Result<int64_t> AfterNumber(const std::string& tenant, const std::string& job,
                              const PageQuery& query);

  const std::function<int64_t()> unix_seconds_;
  std::mutex mutex_;
  SqliteDatabase database_;
};

// "file-", "ftjob-" and 24 random hexadecimal digits.
std::string NewLearningId(const char* prefix);
// Ids of a job's events and checkpoints.
std::string EventId(const std::string& job, int64_t number);
std::string CheckpointId(const std::string& job, int64_t step);

}  // namespace graft
