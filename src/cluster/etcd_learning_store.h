// EtcdLearningStore: a cluster's LearningStore. Records are in etcd, and contents in a folder that
// all processes of the cluster share. A job that is not finished is listed as open. A runner claims
// it by a key under its own lease, and writes to it only while that key is still the one that it
// made. So the job of a runner that died is open again when the lease ends, and a runner that was
// only stopped meanwhile changes nothing any more. Thread-safe; calls block as EtcdClient's do.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/cluster_store.h"
#include "cluster/learning_folder.h"
#include "jobs/learning_store.h"

namespace graft {

class EtcdLearningStore : public LearningStore {
 public:
  struct Options {
    std::string folder;  // --learn-dir
    std::string by;      // for the audit log
    // For a runner that learns: the lease that its claims stand under; 0: it has none now. An empty
    // function: this process claims nothing.
    std::function<int64_t()> lease_id;
    std::function<int64_t()> unix_seconds = UnixTimeSeconds;
    // Finished jobs of a tenant without an adapter; older ones are forgotten. And a job's
    // checkpoints.
    size_t jobs_kept = 100;
    size_t checkpoints_kept = kCheckpointsKept;
    // Finished jobs of a tenant that have their events and checkpoints still.
    size_t jobs_whole = 20;
    // What nothing leads to stays so long in the folder, and is looked for so often.
    std::chrono::seconds grace{3600};
    std::chrono::seconds sweep{600};
  };
  // `store` must outlive it. kFailedPrecondition: the folder is not the cluster's.
  static Result<std::unique_ptr<EtcdLearningStore>> Open(ClusterStore& store, Options options);

  int64_t now() const override { return options_.unix_seconds(); }

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
  // One of the registry that no job is known of any more has no id.
  Result<LearningJob> FindLearned(const std::string& tenant, const std::string& adapter) override;
  Status ForgetAdapter(const LearningJob& job) override;
  // Those that are not finished alone.
  Result<JobsOverview> Overview(int32_t rows_max) override;

  Result<std::optional<LearningJob>> NextJob() override;
  Result<bool> OthersWait(const LearningJob& job) override;
  Status Update(const LearningJob& job) override;
  Status Finish(const LearningJob& job, const JobEvent& event) override;
  Status GotOn(const std::string& job) override;
  void Leave(const LearningJob& job, bool is_fault) override;
  // As it was at most half a second ago.
  Result<bool> IsCancelled(const std::string& job) override;
  Status AddEvent(const std::string& job, const JobEvent& event) override;
  Status AddCheckpoint(const std::string& job, const JobCheckpoint& checkpoint) override;

 private:
  template <typename T>
  struct Kept {
    T record;
    int64_t place = 0;  // in the order in which they were made
    int64_t mod_revision = 0;
  };
  // All that a tenant's limits hold for, oldest first.
  struct Tenant {
    int64_t guard = 0;  // the revision of the tenant's own key
    std::vector<Kept<LearningFile>> files;
    std::vector<Kept<LearningJob>> jobs;
  };
  // A job of this runner's, or one that is open.
  struct Claim {
    std::string tenant;
    int64_t revision = 0;  // that made the key
    int64_t next_event = 1;
    std::deque<int64_t> steps;  // of its checkpoints
    std::string folder;
    int64_t looked_ns = 0;  // for whether it is cancelled
    bool is_cancelled = false;
  };
  struct OpenJob {
    std::string id;
    std::string tenant;
    bool has_begun = false;
    int32_t begins = 0;  // without an end
    int64_t place = 0;
    int64_t mod_revision = 0;

    std::string Value() const;
  };

  EtcdLearningStore(ClusterStore& store, Options options, LearningFolder folder);
  Status JoinFolder();
  Result<Tenant> ReadTenant(const std::string& tenant) const;
  bool IsGone(const LearningFile& file, const Tenant& tenant) const;
  // Tries once; false: another process changed the tenant's records first.
  Result<bool> TryAddFile(const LearningFile& file, std::string_view content,
                          int64_t tenant_bytes_max);
  void TrimFinished(const Tenant& tenant, EtcdTransaction* transaction) const;
  Result<bool> TryAddJob(const LearningJob& job, const JobLimits& limits);
  Result<bool> TryCancel(const std::string& tenant, const std::string& id, LearningJob* job);

  static std::vector<OpenJob> OpenJobsOf(const std::vector<EtcdKeyValue>& items);
  Result<std::optional<LearningJob>> TryClaim(const OpenJob& open, int64_t lease,
                                              int64_t own_claim);
  Status TryLeave(const std::string& job, const Claim& claim, bool is_fault);
  Status TakeBackNotLeft(const std::set<std::string>& own_claims);
  // The runner that lost its claim lives: what was counted as its end was none.
  Status TakeBackBegin(const std::string& job);
  Result<Claim> ClaimOf(const std::string& job);
  // Only while the claim stands; kAborted.
  Result<EtcdOutcome> CommitAs(const std::string& job, const Claim& claim,
                               EtcdTransaction transaction) const;
  void SweepNowAndThen();
  Status Sweep();

  ClusterStore& store_;
  const Options options_;
  const LearningFolder folder_;
  std::mutex mutex_;
  bool has_joined_ = false;
  int64_t sweep_at_ns_ = 0;
  std::map<std::string, Claim> claims_;  // by job
  std::set<std::string> not_left_;       // jobs that etcd does not know to be left
};

}  // namespace graft
