// SqliteLearningStore: one server's LearningStore, a SQLite file that no other server has. After a
// kill it is as the last change left it. Thread-safe.
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
#include "jobs/learning_store.h"
#include "registry/sqlite_database.h"

namespace graft {

class SqliteLearningStore : public LearningStore {
 public:
  // `path`, which then only this user may read, or ":memory:". Errors as SqliteDatabase's.
  // `unix_seconds`: any thread asks it.
  static Result<std::unique_ptr<SqliteLearningStore>> Open(
      const std::string& path, std::function<int64_t()> unix_seconds = UnixTimeSeconds);

  int64_t now() const override { return unix_seconds_(); }
  // The jobs of all tenants that have a learned adapter.
  Result<std::vector<LearningJob>> ListLearned();

  Status AddFile(const LearningFile& file, std::string_view content,
                 int64_t tenant_bytes_max) override;
  Result<LearningFile> FindFile(const std::string& tenant, const std::string& id) override;
  Result<std::string> FileContent(const std::string& tenant, const std::string& id) override;
  Status DeleteFile(const std::string& tenant, const std::string& id) override;
  Result<Page<LearningFile>> ListFiles(const std::string& tenant, const std::string& purpose,
                                       const PageQuery& query) override;
  Status AddJob(const LearningJob& job, const JobLimits& limits) override;
  Result<LearningJob> FindJob(const std::string& tenant, const std::string& id) override;
  Result<Page<LearningJob>> ListJobs(const std::string& tenant, const PageQuery& query) override;
  Result<LearningJob> Cancel(const std::string& tenant, const std::string& id) override;
  Result<Page<JobEvent>> ListEvents(const std::string& tenant, const std::string& job,
                                    const PageQuery& query) override;
  Result<Page<JobCheckpoint>> ListCheckpoints(const std::string& tenant, const std::string& job,
                                              const PageQuery& query) override;
  Result<std::string> TenantOf(const std::string& job) override;
  Result<LearningJob> FindLearned(const std::string& tenant, const std::string& adapter) override;
  Status ForgetAdapter(const LearningJob& job) override;
  Result<JobsOverview> Overview(int32_t rows_max) override;
  Result<std::optional<LearningJob>> NextJob() override;
  Result<bool> OthersWait(const LearningJob& job) override;
  Status Update(const LearningJob& job) override;
  Status Finish(const LearningJob& job, const JobEvent& event) override;
  Status GotOn(const std::string& job) override;
  void Leave(const LearningJob& job, bool is_fault) override;
  Result<bool> IsCancelled(const std::string& job) override;
  Status AddEvent(const std::string& job, const JobEvent& event) override;
  Status AddCheckpoint(const std::string& job, const JobCheckpoint& checkpoint) override;

 private:
  explicit SqliteLearningStore(std::function<int64_t()> unix_seconds)
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

}  // namespace graft
