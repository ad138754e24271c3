// EtcdLearningStore's part for the thread that learns: which job is this runner's, and what it
// writes of it.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cluster/cluster_keys.h"
#include "cluster/cluster_records.h"
#include "cluster/etcd_learning_store.h"
#include "jobs/learning_json.h"

namespace graft {
namespace {

constexpr int64_t kCancelLookNs = 500'000'000;
constexpr int kLeaveTries = 5;  // while other processes change the same records

Status Lost(const std::string& job) {
  return Status(StatusCode::kAborted, "fine-tuning job " + job +
                                          " is not this runner's any more: another one has it, or "
                                          "it was cancelled meanwhile");
}

}  // namespace

// Claims a job of the tenant that had its turn longest ago; its jobs that were begun go first.
Result<std::optional<LearningJob>> EtcdLearningStore::NextJob() {
  RETURN_IF_ERROR(JoinFolder());
  const int64_t lease = options_.lease_id ? options_.lease_id() : 0;
  // There is no lease at the start and while etcd is away, which other code reports.
  if (lease == 0) return std::optional<LearningJob>();
  SweepNowAndThen();
  ASSIGN_OR_RETURN(
      const EtcdOutcome all,
      store_.Commit({.then = {EtcdOperation::GetPrefix(std::string(kOpenJobsPrefix)),
                              EtcdOperation::GetPrefix(std::string(kJobClaimsPrefix)),
                              EtcdOperation::GetPrefix(std::string(kLearningTurnsPrefix))}}));
  std::map<std::string, const EtcdKeyValue*> claims;
  std::set<std::string> own_claims;
  for (const EtcdKeyValue& item : all.found[1]) {
    const std::string job = NameInKey(item.key, kJobClaimsPrefix);
    claims[job] = &item;
    if (item.lease == lease) own_claims.insert(job);
  }
  RETURN_IF_ERROR(TakeBackNotLeft(own_claims));
  std::map<std::string, int64_t> turns;
  for (const EtcdKeyValue& item : all.found[2]) {
    turns[NameInKey(item.key, kLearningTurnsPrefix)] = item.mod_revision;
  }
  std::vector<OpenJob> open = OpenJobsOf(all.found[0]);
  std::stable_sort(open.begin(), open.end(), [&turns](const OpenJob& left, const OpenJob& right) {
    const int64_t left_turn = turns[left.tenant], right_turn = turns[right.tenant];
    if (left_turn != right_turn) return left_turn < right_turn;
    return left.has_begun && !right.has_begun;
  });
  for (const OpenJob& job : open) {
    const auto claim = claims.find(job.id);
    const bool is_own = own_claims.contains(job.id);
    if (claim != claims.end() && !is_own) continue;
    ASSIGN_OR_RETURN(std::optional<LearningJob> claimed,
                     TryClaim(job, lease, is_own ? claim->second->create_revision : 0));
    if (claimed.has_value()) return claimed;
  }
  return std::optional<LearningJob>();
}

// `own_claim`: the revision of a claim that this runner could not leave; 0: none.
Result<std::optional<LearningJob>> EtcdLearningStore::TryClaim(const OpenJob& open, int64_t lease,
                                                               int64_t own_claim) {
  const std::string claim_key = JobClaimKey(open.id), open_key = OpenJobKey(open.id);
  EtcdTransaction transaction;
  transaction.compares = {EtcdCompare::CreateRevision(claim_key, own_claim),
                          EtcdCompare::ModRevision(open_key, open.mod_revision)};
  // A job that this runner could not leave was not begun again.
  OpenJob begun = open;
  begun.has_begun = true;
  if (own_claim == 0) ++begun.begins;
  transaction.then = {EtcdOperation::Get(LearningJobKey(open.tenant, open.id)),
                      EtcdOperation::GetPrefix(JobEventsKey(open.tenant, open.id)),
                      EtcdOperation::GetPrefix(JobCheckpointsKey(open.tenant, open.id)),
                      EtcdOperation::Put(claim_key, options_.by, lease),
                      EtcdOperation::Put(open_key, begun.Value()),
                      EtcdOperation::Put(LearningTurnKey(open.tenant), "")};
  ASSIGN_OR_RETURN(const EtcdOutcome outcome, store_.Commit(std::move(transaction)));
  if (!outcome.succeeded || outcome.found[0].empty()) return std::optional<LearningJob>();
  Claim claim;
  claim.tenant = open.tenant;
  claim.revision = own_claim == 0 ? outcome.revision : own_claim;
  if (!outcome.found[1].empty()) {
    ASSIGN_OR_RETURN(const JobEvent last, JobEventOf(outcome.found[1].back().value));
    claim.next_event = last.number + 1;
  }
  ASSIGN_OR_RETURN(LearningJob job, LearningJobOf(outcome.found[0][0].value));
  int64_t newest = 0;  // revision: a runner that could not go on began anew
  for (const EtcdKeyValue& item : outcome.found[2]) {
    std::string file;
    ASSIGN_OR_RETURN(const JobCheckpoint checkpoint, JobCheckpointOf(item.value, &file));
    claim.steps.push_back(checkpoint.step);
    if (std::exchange(newest, std::max(newest, item.mod_revision)) < item.mod_revision) {
      job.checkpoint = file;
    }
  }
  // The folder is this claim's alone: a runner that had the job before may still write to its own.
  job.folder = job.id + "-" + std::to_string(claim.revision);
  claim.folder = job.folder;
  job.begins = begun.begins;
  std::lock_guard lock(mutex_);
  claims_[job.id] = std::move(claim);
  return std::optional<LearningJob>(std::move(job));
}

Result<EtcdLearningStore::Claim> EtcdLearningStore::ClaimOf(const std::string& job) {
  std::lock_guard lock(mutex_);
  const auto claim = claims_.find(job);
  if (claim == claims_.end()) return Lost(job);
  return claim->second;
}

Result<EtcdOutcome> EtcdLearningStore::CommitAs(const std::string& job, const Claim& claim,
                                                EtcdTransaction transaction) const {
  transaction.compares.push_back(EtcdCompare::CreateRevision(JobClaimKey(job), claim.revision));
  transaction.compares.push_back(EtcdCompare::Present(OpenJobKey(job)));
  ASSIGN_OR_RETURN(EtcdOutcome outcome, store_.Commit(std::move(transaction)));
  if (!outcome.succeeded) return Lost(job);
  return outcome;
}

Status EtcdLearningStore::Update(const LearningJob& job) {
  ASSIGN_OR_RETURN(const Claim claim, ClaimOf(job.id));
  return CommitAs(job.id, claim,
                  {.then = {EtcdOperation::Put(LearningJobKey(job.tenant, job.id), ToJson(job))}})
      .status();
}

// The job's end, its adapter's name and the end of its claim are one change: no other runner can
// have the job meanwhile, and none registers what was learned twice.
Status EtcdLearningStore::Finish(const LearningJob& job, const JobEvent& told) {
  ASSIGN_OR_RETURN(const Claim claim, ClaimOf(job.id));
  JobEvent event = told;
  event.number = claim.next_event;
  event.created_at = now();
  const std::string key = LearningJobKey(job.tenant, job.id), text = ToJson(job);
  EtcdTransaction transaction;
  transaction.compares = {EtcdCompare::CreateRevision(JobClaimKey(job.id), claim.revision),
                          EtcdCompare::Present(OpenJobKey(job.id))};
  transaction.then = {
      EtcdOperation::Put(key, text),
      EtcdOperation::Put(NumberedKey(JobEventsKey(job.tenant, job.id), event.number),
                         ToJson(event)),
      EtcdOperation::Delete(OpenJobKey(job.id)),
      EtcdOperation::Delete(JobClaimKey(job.id)),
      EtcdOperation::Delete(JobCancelKey(job.tenant, job.id)),
      EtcdOperation::Delete(JobProgressKey(job.tenant, job.id))};
  transaction.otherwise = {EtcdOperation::Get(key)};
  Result<EtcdOutcome> outcome = EtcdOutcome();
  if (job.status == JobStatus::kSucceeded) {
    const AdapterVersion adapter = {1,
                                    {.name = job.adapter,
                                     .hash = job.hash,
                                     .path = job.folder_name(),
                                     .base_model = job.base_model,
                                     .rank_max = job.rank_max,
                                     .num_virtual_tokens = job.num_virtual_tokens,
                                     .bytes = job.bytes,
                                     .tenant = job.tenant,
                                     .loaded_at = now(),
                                     .owner = job.tenant}};
    transaction.then.push_back(EtcdOperation::Put(AdapterKey(job.adapter), EncodeRecord(adapter)));
    transaction.then.push_back(
        EtcdOperation::Put(VersionKey(job.adapter, 1), EncodeRecord(adapter)));
    outcome =
        store_.Change(std::move(transaction), {options_.by, "learn", job.adapter, job.tenant});
  } else {
    outcome = store_.Commit(std::move(transaction));
  }
  RETURN_IF_ERROR(outcome.status());
  // A call that broke off before may have done it.
  const bool was_done = !outcome->succeeded && !outcome->found.empty() &&
                        !outcome->found[0].empty() && outcome->found[0][0].value == text;
  if (!outcome->succeeded && !was_done) return Lost(job.id);
  std::lock_guard lock(mutex_);
  claims_.erase(job.id);
  return OkStatus();
}

Status EtcdLearningStore::GotOn(const std::string& job) {
  ASSIGN_OR_RETURN(const Claim claim, ClaimOf(job));
  const std::string key = OpenJobKey(job);
  for (int i = 0; i < kLeaveTries; ++i) {
    ASSIGN_OR_RETURN(const EtcdOutcome known, store_.Commit({.then = {EtcdOperation::Get(key)}}));
    std::vector<OpenJob> open = OpenJobsOf(known.found[0]);
    if (open.empty()) return Lost(job);
    open[0].begins = 1;
    ASSIGN_OR_RETURN(
        const EtcdOutcome outcome,
        store_.Commit({.compares = {EtcdCompare::CreateRevision(JobClaimKey(job), claim.revision),
                                    EtcdCompare::ModRevision(key, open[0].mod_revision)},
                       .then = {EtcdOperation::Put(key, open[0].Value())}}));
    if (outcome.succeeded) return OkStatus();
  }
  return Lost(job);
}

void EtcdLearningStore::Leave(const LearningJob& job, bool is_fault) {
  const Result<Claim> claim = ClaimOf(job.id);
  if (!claim.ok()) return;
  const Status left = TryLeave(job.id, *claim, is_fault);
  if (!left.ok()) LOG_WARN("fine-tuning job {}: {}", job.id, left.message());
  std::lock_guard lock(mutex_);
  claims_.erase(job.id);
  // Where etcd is away the lease ends, or the next look finds the claim.
  if (!left.ok() && !is_fault) not_left_.insert(job.id);
}

Status EtcdLearningStore::TryLeave(const std::string& job, const Claim& claim, bool is_fault) {
  const std::string key = JobClaimKey(job), open_key = OpenJobKey(job);
  const EtcdCompare is_own = EtcdCompare::CreateRevision(key, claim.revision);
  for (int i = 0; i < kLeaveTries; ++i) {
    ASSIGN_OR_RETURN(
        const EtcdOutcome known,
        store_.Commit({.then = {EtcdOperation::Get(open_key), EtcdOperation::Get(key)}}));
    const bool is_lost =
        known.found[1].empty() || known.found[1][0].create_revision != claim.revision;
    if (is_lost) return is_fault ? OkStatus() : TakeBackBegin(job);
    EtcdTransaction leave = {.compares = {is_own}, .then = {EtcdOperation::Delete(key)}};
    // The job itself may be gone, with its tenant.
    for (OpenJob& open : OpenJobsOf(known.found[0])) {
      if (!is_fault) open.begins = std::max(0, open.begins - 1);
      leave.compares.push_back(EtcdCompare::ModRevision(open_key, open.mod_revision));
      leave.then.push_back(EtcdOperation::Put(open_key, open.Value()));
    }
    ASSIGN_OR_RETURN(const EtcdOutcome outcome, store_.Commit(std::move(leave)));
    if (outcome.succeeded) return OkStatus();
  }
  return Status(StatusCode::kAborted, "others keep changing its record: it is left with its lease");
}

// For jobs that were left while etcd was away. If the claim still stands, the job is continued
// under it and stays counted once; otherwise its begin is not counted.
Status EtcdLearningStore::TakeBackNotLeft(const std::set<std::string>& own_claims) {
  std::set<std::string> jobs;
  {
    std::lock_guard lock(mutex_);
    jobs = not_left_;
  }
  for (const std::string& job : jobs) {
    if (!own_claims.contains(job)) RETURN_IF_ERROR(TakeBackBegin(job));
    std::lock_guard lock(mutex_);
    not_left_.erase(job);
  }
  return OkStatus();
}

Status EtcdLearningStore::TakeBackBegin(const std::string& job) {
  const std::string key = OpenJobKey(job);
  for (int i = 0; i < kLeaveTries; ++i) {
    ASSIGN_OR_RETURN(const EtcdOutcome known, store_.Commit({.then = {EtcdOperation::Get(key)}}));
    std::vector<OpenJob> open = OpenJobsOf(known.found[0]);
    if (open.empty() || open[0].begins == 0) return OkStatus();
    --open[0].begins;
    ASSIGN_OR_RETURN(
        const EtcdOutcome outcome,
        store_.Commit({.compares = {EtcdCompare::ModRevision(key, open[0].mod_revision)},
                       .then = {EtcdOperation::Put(key, open[0].Value())}}));
    if (outcome.succeeded) return OkStatus();
  }
  return OkStatus();
}

Result<bool> EtcdLearningStore::OthersWait(const LearningJob& job) {
  ASSIGN_OR_RETURN(
      const EtcdOutcome all,
      store_.Commit({.then = {EtcdOperation::GetPrefix(std::string(kOpenJobsPrefix)),
                              EtcdOperation::GetPrefix(std::string(kJobClaimsPrefix))}}));
  std::set<std::string> claimed;
  for (const EtcdKeyValue& item : all.found[1]) {
    claimed.insert(NameInKey(item.key, kJobClaimsPrefix));
  }
  const std::vector<OpenJob> open = OpenJobsOf(all.found[0]);
  return std::any_of(open.begin(), open.end(), [&](const OpenJob& other) {
    return other.tenant != job.tenant && !claimed.contains(other.id);
  });
}

// Training goes on while etcd is away: whether the job is still this runner's shows afterwards.
Result<bool> EtcdLearningStore::IsCancelled(const std::string& job) {
  ASSIGN_OR_RETURN(const Claim claim, ClaimOf(job));
  const int64_t now_ns = SteadyClock::Get().NowNs();
  if (claim.looked_ns != 0 && now_ns - claim.looked_ns < kCancelLookNs) return claim.is_cancelled;
  const Result<EtcdOutcome> outcome =
      CommitAs(job, claim, {.then = {EtcdOperation::Get(JobCancelKey(claim.tenant, job))}});
  const StatusCode code = outcome.status().code();
  const bool is_away = code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded;
  if (!outcome.ok() && !is_away) return outcome.status();
  std::lock_guard lock(mutex_);
  Claim& known = claims_[job];
  known.looked_ns = SteadyClock::Get().NowNs();
  if (outcome.ok()) known.is_cancelled = !outcome->found[0].empty();
  return known.is_cancelled;
}

Status EtcdLearningStore::AddEvent(const std::string& job, const JobEvent& told) {
  ASSIGN_OR_RETURN(const Claim claim, ClaimOf(job));
  {
    // A number is never given twice, even if it is unknown whether its event was written.
    std::lock_guard lock(mutex_);
    claims_[job].next_event = claim.next_event + 1;
  }
  JobEvent event = told;
  event.number = claim.next_event;
  event.created_at = now();
  EtcdTransaction transaction;
  transaction.then = {EtcdOperation::Put(NumberedKey(JobEventsKey(claim.tenant, job), event.number),
                                         ToJson(event))};
  if (!event.data.empty()) {
    transaction.then.push_back(EtcdOperation::Put(JobProgressKey(claim.tenant, job), event.data));
  }
  return CommitAs(job, claim, std::move(transaction)).status();
}

Status EtcdLearningStore::AddCheckpoint(const std::string& job, const JobCheckpoint& checkpoint) {
  ASSIGN_OR_RETURN(Claim claim, ClaimOf(job));
  const std::string prefix = JobCheckpointsKey(claim.tenant, job);
  JobCheckpoint made = checkpoint;
  made.created_at = now();
  EtcdTransaction transaction;
  transaction.then = {
      EtcdOperation::Put(NumberedKey(prefix, made.step), ToJson(made, claim.folder))};
  // A job that went on from an earlier step makes steps anew.
  std::erase(claim.steps, made.step);
  claim.steps.push_back(made.step);
  while (claim.steps.size() > options_.checkpoints_kept) {
    transaction.then.push_back(EtcdOperation::Delete(NumberedKey(prefix, claim.steps.front())));
    claim.steps.pop_front();
  }
  RETURN_IF_ERROR(CommitAs(job, claim, std::move(transaction)).status());
  std::lock_guard lock(mutex_);
  claims_[job].steps = std::move(claim.steps);
  return OkStatus();
}

void EtcdLearningStore::SweepNowAndThen() {
  const int64_t now_ns = SteadyClock::Get().NowNs();
  {
    std::lock_guard lock(mutex_);
    if (now_ns < sweep_at_ns_) return;
    sweep_at_ns_ =
        now_ns + std::chrono::duration_cast<std::chrono::nanoseconds>(options_.sweep).count();
  }
  const Status swept = Sweep();
  if (!swept.ok()) LOG_WARN("--learn-dir: {}", swept.message());
}

// Deletes the records of expired files, unless their tenant has an open job. Then deletes the
// content that no record leads to.
Status EtcdLearningStore::Sweep() {
  ASSIGN_OR_RETURN(
      const EtcdOutcome all,
      store_.Commit({.then = {EtcdOperation::GetPrefix(LearningFilesPrefix()),
                              EtcdOperation::GetPrefix(std::string(kOpenJobsPrefix)),
                              EtcdOperation::GetPrefix(std::string(kAdaptersPrefix)),
                              EtcdOperation::GetPrefix(std::string(kVersionsPrefix))}}));
  LearningFolder::Wanted wanted;
  std::set<std::string> busy;  // tenants with open jobs, which may need expired files
  for (const OpenJob& job : OpenJobsOf(all.found[1])) {
    wanted.jobs.insert(job.id);
    busy.insert(job.tenant);
  }
  for (const EtcdKeyValue& item : all.found[0]) {
    const Result<LearningFile> file = LearningFileOf(item.value);
    // What cannot be read is a later version's.
    if (!file.ok()) return file.status();
    wanted.files.insert(file->id);
    const bool is_over = file->expires_at > 0 && file->expires_at <= now();
    if (!is_over || busy.contains(file->tenant)) continue;
    RETURN_IF_ERROR(
        store_
            .Commit({.compares = {EtcdCompare::ModRevision(item.key, item.mod_revision)},
                     .then = {EtcdOperation::Delete(item.key)}})
            .status());
  }
  for (const auto* const items : {&all.found[2], &all.found[3]}) {
    for (const EtcdKeyValue& item : *items) {
      ASSIGN_OR_RETURN(const AdapterVersion adapter, DecodeAdapterVersion(item.value));
      if (adapter.entry.owner.has_value()) wanted.adapters.insert(adapter.entry.path);
    }
  }
  const int num_removed = folder_.Sweep(wanted, options_.grace);
  if (num_removed > 0) LOG_INFO("--learn-dir: {} that nothing leads to are removed", num_removed);
  return OkStatus();
}

}  // namespace graft
