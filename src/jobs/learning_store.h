// LearningStore: files and jobs of learning. They survive a killed process: a job that ran is found
// as its last change left it. One server's are a SQLite file (sqlite_learning_store.h), a cluster's
// are in etcd. Every call names a tenant and sees only that tenant's data, except for the calls of
// the learning thread and of the operator. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jobs/learning_records.h"

namespace graft {

// The files of a tenant, at most.
inline constexpr size_t kTenantFilesMax = 1000;
struct JobLimits {
  int32_t unfinished_max = 0;
  int32_t adapters_max = 0;                                         // learned, or to be learned
  int64_t adapter_bytes_max = std::numeric_limits<int64_t>::max();  // of those that are learned
};

class LearningStore {
 public:
  virtual ~LearningStore();

  // Unix seconds.
  virtual int64_t now() const = 0;

  // Files. An expired file is gone, unless an unfinished job needs it. kResourceExhausted: the
  // tenant's files would be more than `tenant_bytes_max` in all, or than kTenantFilesMax.
  virtual Status AddFile(const LearningFile& file, std::string_view content,
                         int64_t tenant_bytes_max) = 0;
  // kNotFound.
  virtual Result<LearningFile> FindFile(const std::string& tenant, const std::string& id) = 0;
  virtual Result<std::string> FileContent(const std::string& tenant, const std::string& id) = 0;
  // kFailedPrecondition while a job that is not finished needs it.
  virtual Status DeleteFile(const std::string& tenant, const std::string& id) = 0;
  // The newest first, or the oldest; `purpose` "": any. kNotFound: of query.after.
  virtual Result<Page<LearningFile>> ListFiles(const std::string& tenant,
                                               const std::string& purpose,
                                               const PageQuery& query) = 0;

  // Jobs. kResourceExhausted where the tenant has as many as the limits say; kNotFound where it has
  // not the file.
  virtual Status AddJob(const LearningJob& job, const JobLimits& limits) = 0;
  virtual Result<LearningJob> FindJob(const std::string& tenant, const std::string& id) = 0;
  virtual Result<Page<LearningJob>> ListJobs(const std::string& tenant, const PageQuery& query) = 0;
  // A job that was not begun is cancelled at once; one that runs, by the thread that learns.
  // kFailedPrecondition: it is finished.
  virtual Result<LearningJob> Cancel(const std::string& tenant, const std::string& id) = 0;
  // Newest first.
  virtual Result<Page<JobEvent>> ListEvents(const std::string& tenant, const std::string& job,
                                            const PageQuery& query) = 0;
  virtual Result<Page<JobCheckpoint>> ListCheckpoints(const std::string& tenant,
                                                      const std::string& job,
                                                      const PageQuery& query) = 0;
  // The tenant of a job that is not finished, for an operator. kNotFound.
  virtual Result<std::string> TenantOf(const std::string& job) = 0;
  // The job that learned it. kNotFound.
  virtual Result<LearningJob> FindLearned(const std::string& tenant,
                                          const std::string& adapter) = 0;
  // The job stays, without an adapter.
  virtual Status ForgetAdapter(const LearningJob& job) = 0;

  // For an operator: all tenants' jobs, at most so many rows.
  virtual Result<JobsOverview> Overview(int32_t rows_max) = 0;

  // The calls of the learning thread. On a cluster they return kAborted if another runner has the
  // job by now, or its tenant is forgotten; what was learned of it is then useless.
  // Returns the next job, of the tenant that had its turn longest ago: a job that was begun, else
  // the oldest. No other learning thread gets it until it is finished or left. That the job has
  // begun is recorded first, so that a job which ends its server is recognised.
  virtual Result<std::optional<LearningJob>> NextJob() = 0;
  // Whether another tenant's job could be had.
  virtual Result<bool> OthersWait(const LearningJob& job) = 0;
  // Everything after created_at but is_cancelled.
  virtual Status Update(const LearningJob& job) = 0;
  // The same of one that is finished, and the event that says so, in one piece. On a cluster what
  // it learned is then the cluster's.
  virtual Status Finish(const LearningJob& job, const JobEvent& event) = 0;
  // A checkpoint or a text of it is new: it counts as begun for the first time.
  virtual Status GotOn(const std::string& job) = 0;
  // Gives the job back for any later NextJob. It is as if it had not been begun, unless it is left
  // for a fault of its own.
  virtual void Leave(const LearningJob& job, bool is_fault) = 0;
  virtual Result<bool> IsCancelled(const std::string& job) = 0;
  virtual Status AddEvent(const std::string& job, const JobEvent& event) = 0;
  // The last ones are kept.
  virtual Status AddCheckpoint(const std::string& job, const JobCheckpoint& checkpoint) = 0;
};

inline constexpr int64_t kCheckpointsKept = 100;  // of a job
// A job that has ended so many servers since it last got on, without an end of its own, is not
// begun again.
inline constexpr int32_t kJobBeginsMax = 3;
// Beside what it has in --learn-dir: a cluster's folder has a file of the first name, one server's
// of the other.
inline constexpr const char* kClusterFolderFile = "cluster";
inline constexpr const char* kServerFolderFile = "learning.db";

// "file-", "ftjob-" and 24 random hexadecimal digits.
std::string NewLearningId(const char* prefix);
// Ids of a job's events and checkpoints, and the number in one; 0 for what is no such id.
std::string EventId(const std::string& job, int64_t number);
std::string CheckpointId(const std::string& job, int64_t step);
int64_t NumberOfId(const std::string& id);

// The files that a job needs until it is finished: its document, and what its adapter is to leave
// alone.
std::vector<std::string> FilesOf(const LearningJob& job);

// What every store says.
Status NoSuchFile(const std::string& id);
Status NoSuchJob(const std::string& id);
Status NothingAfter(const std::string& id);
Status NoSuchLearnedModel(const std::string& name);
Status FileIsNeeded(const std::string& job);
Status JobIsFinished(const LearningJob& job);
// kResourceExhausted, or OK.
Status CheckFileRoom(size_t num_files, int64_t bytes, int64_t more, int64_t tenant_bytes_max);
struct JobRoom {
  int64_t unfinished = 0, adapters = 0, adapter_bytes = 0;  // that the tenant has
};
Status CheckJobRoom(const JobRoom& room, const JobLimits& limits);
// kInvalidArgument where passes over so many tokens are more than a job may learn.
Status CheckJobLength(int64_t tokens, int64_t passes, int64_t tokens_max);

}  // namespace graft
