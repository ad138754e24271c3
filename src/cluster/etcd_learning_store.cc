#include "cluster/etcd_learning_store.h"

#include <algorithm>
#include <utility>

#include "base/fault.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "cluster/cluster_keys.h"
#include "cluster/cluster_records.h"
#include "jobs/learning_json.h"

namespace graft {
namespace {

// Attempts at a change while other processes change the same records.
constexpr int kLearningTriesMax = 20;
// Old files or jobs that one transaction may drop besides its change.
constexpr size_t kDroppedMax = 20;
constexpr size_t kOpenJobsRead = 60;  // in one transaction, with two reads each

Status TooManyRaces() {
  return Status(StatusCode::kAborted, "others keep changing this at the same time: try again");
}

// The part of a list that a query asks for, of records that are sorted by their places.
template <typename T, typename Record, typename IsShown>
Result<Page<T>> PageOf(const std::vector<Record>& records, const PageQuery& query,
                       const IsShown& is_shown) {
  const auto is_after = [&](const Record& one) { return one.record.id == query.after; };
  const auto after = std::find_if(records.begin(), records.end(), is_after);
  if (!query.after.empty() && after == records.end()) return NothingAfter(query.after);
  std::vector<const T*> listed;
  for (const Record& one : records) {
    const bool is_behind = query.after.empty() || (query.is_ascending ? one.place > after->place
                                                                      : one.place < after->place);
    if (is_behind && is_shown(one.record)) listed.push_back(&one.record);
  }
  if (!query.is_ascending) std::reverse(listed.begin(), listed.end());
  Page<T> page;
  page.has_more = listed.size() > static_cast<size_t>(query.limit);
  listed.resize(std::min(listed.size(), static_cast<size_t>(query.limit)));
  for (const T* const one : listed) page.items.push_back(*one);
  return page;
}

// The newest of what `number_of` counts, behind that of query.after.
template <typename T, typename NumberOf>
Page<T> NumberedPage(const std::vector<T>& items, const PageQuery& query,
                     const NumberOf& number_of) {
  const int64_t before = NumberOfId(query.after);
  Page<T> page;
  for (auto it = items.rbegin(); it != items.rend(); ++it) {
    if (!query.after.empty() && number_of(*it) >= before) continue;
    page.has_more = page.items.size() == static_cast<size_t>(query.limit);
    if (page.has_more) return page;
    page.items.push_back(*it);
  }
  return page;
}

template <typename Record>
void SortByPlace(std::vector<Record>* records) {
  std::sort(records->begin(), records->end(),
            [](const Record& left, const Record& right) { return left.place < right.place; });
}

// Whether a job that is not finished needs the file.
bool Needs(const LearningJob& job, const std::string& file) {
  if (IsFinished(job.status)) return false;
  const std::vector<std::string> files = FilesOf(job);
  return std::find(files.begin(), files.end(), file) != files.end();
}

}  // namespace

EtcdLearningStore::EtcdLearningStore(ClusterStore& store, Options options, LearningFolder folder)
    : store_(store), options_(std::move(options)), folder_(std::move(folder)) {}

Result<std::unique_ptr<EtcdLearningStore>> EtcdLearningStore::Open(ClusterStore& store,
                                                                   Options options) {
  ASSIGN_OR_RETURN(LearningFolder folder, LearningFolder::Open(options.folder, store.cluster().id));
  std::unique_ptr<EtcdLearningStore> learning(
      new EtcdLearningStore(store, std::move(options), std::move(folder)));
  const Status joined = learning->JoinFolder();
  // A process starts while etcd is away, too, and looks again when it is asked.
  if (!joined.ok() && !IsPassing(joined)) return joined;
  return learning;
}

// All processes have the same folder, not one each.
Status EtcdLearningStore::JoinFolder() {
  {
    std::lock_guard lock(mutex_);
    if (has_joined_) return OkStatus();
  }
  const std::string key = LearningFolderKey();
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store_.Commit({.compares = {EtcdCompare::Absent(key)},
                                  .then = {EtcdOperation::Put(key, folder_.id())},
                                  .otherwise = {EtcdOperation::Get(key)}}));
  if (!outcome.succeeded && outcome.found[0][0].value != folder_.id()) {
    return FailedPreconditionError(
        "--learn-dir " + options_.folder +
        " is not the folder that the cluster's other frontends and runners have: it must be one "
        "that all of them share");
  }
  std::lock_guard lock(mutex_);
  has_joined_ = true;
  return OkStatus();
}

Result<EtcdLearningStore::Tenant> EtcdLearningStore::ReadTenant(const std::string& name) const {
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store_.Commit({.then = {EtcdOperation::Get(LearningTenantKey(name)),
                                           EtcdOperation::GetPrefix(LearningFileKey(name, "")),
                                           EtcdOperation::GetPrefix(LearningJobKey(name, "")),
                                           EtcdOperation::GetPrefix(JobCancelKey(name, ""))}}));
  Tenant tenant;
  if (!outcome.found[0].empty()) tenant.guard = outcome.found[0][0].mod_revision;
  for (const EtcdKeyValue& item : outcome.found[1]) {
    ASSIGN_OR_RETURN(LearningFile file, LearningFileOf(item.value));
    tenant.files.push_back({std::move(file), item.create_revision, item.mod_revision});
  }
  std::set<std::string> cancelled;
  for (const EtcdKeyValue& item : outcome.found[3]) cancelled.insert(item.key);
  for (const EtcdKeyValue& item : outcome.found[2]) {
    ASSIGN_OR_RETURN(LearningJob job, LearningJobOf(item.value));
    job.is_cancelled = cancelled.contains(JobCancelKey(name, job.id));
    tenant.jobs.push_back({std::move(job), item.create_revision, item.mod_revision});
  }
  SortByPlace(&tenant.files);
  SortByPlace(&tenant.jobs);
  return tenant;
}

bool EtcdLearningStore::IsGone(const LearningFile& file, const Tenant& tenant) const {
  if (file.expires_at == 0 || file.expires_at > now()) return false;
  return std::none_of(tenant.jobs.begin(), tenant.jobs.end(),
                      [&file](const auto& job) { return Needs(job.record, file.id); });
}

// ---- files

Status EtcdLearningStore::AddFile(const LearningFile& file, std::string_view content,
                                  int64_t tenant_bytes_max) {
  RETURN_IF_ERROR(JoinFolder());
  Result<bool> added = false;
  for (int i = 0; i < kLearningTriesMax && added.ok() && !*added; ++i) {
    added = TryAddFile(file, content, tenant_bytes_max);
  }
  if (added.ok() && *added) return OkStatus();
  // If it is unknown whether the record was made, the content stays until it is swept.
  if (added.status().code() != StatusCode::kDeadlineExceeded) folder_.RemoveFile(file.id);
  return added.ok() ? TooManyRaces() : added.status();
}

Result<bool> EtcdLearningStore::TryAddFile(const LearningFile& file, std::string_view content,
                                           int64_t tenant_bytes_max) {
  ASSIGN_OR_RETURN(const Tenant tenant, ReadTenant(file.tenant));
  EtcdTransaction transaction;
  const std::string guard = LearningTenantKey(file.tenant);
  transaction.compares = {EtcdCompare::ModRevision(guard, tenant.guard)};
  transaction.then = {EtcdOperation::Put(guard, ""),
                      EtcdOperation::Put(LearningFileKey(file.tenant, file.id), ToJson(file))};
  int64_t bytes = 0;
  size_t num_files = 0;
  std::vector<std::string> dropped;
  for (const auto& other : tenant.files) {
    const bool is_gone = IsGone(other.record, tenant);
    if (is_gone && dropped.size() < kDroppedMax) {
      dropped.push_back(other.record.id);
      transaction.then.push_back(
          EtcdOperation::Delete(LearningFileKey(file.tenant, dropped.back())));
    }
    bytes += is_gone ? 0 : other.record.bytes;
    num_files += is_gone ? 0 : 1;
  }
  RETURN_IF_ERROR(CheckFileRoom(num_files, bytes, file.bytes, tenant_bytes_max));
  RETURN_IF_ERROR(folder_.WriteFile(file.id, content));
  ASSIGN_OR_RETURN(const EtcdOutcome outcome, store_.Commit(std::move(transaction)));
  if (!outcome.succeeded) return false;
  for (const std::string& id : dropped) folder_.RemoveFile(id);
  return true;
}

Result<LearningFile> EtcdLearningStore::FindFile(const std::string& tenant, const std::string& id) {
  RETURN_IF_ERROR(JoinFolder());
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store_.Commit({.then = {EtcdOperation::Get(LearningFileKey(tenant, id))}}));
  if (id.empty() || outcome.found[0].empty()) return NoSuchFile(id);
  ASSIGN_OR_RETURN(LearningFile file, LearningFileOf(outcome.found[0][0].value));
  if (file.expires_at > 0 && file.expires_at <= now()) {
    ASSIGN_OR_RETURN(const Tenant all, ReadTenant(tenant));
    if (IsGone(file, all)) return NoSuchFile(id);
  }
  return file;
}

Result<std::string> EtcdLearningStore::FileContent(const std::string& tenant,
                                                   const std::string& id) {
  ASSIGN_OR_RETURN(const LearningFile file, FindFile(tenant, id));
  return folder_.ReadFile(file.id);
}

Status EtcdLearningStore::DeleteFile(const std::string& tenant, const std::string& id) {
  RETURN_IF_ERROR(JoinFolder());
  for (int i = 0; i < kLearningTriesMax; ++i) {
    ASSIGN_OR_RETURN(const Tenant all, ReadTenant(tenant));
    const auto file = std::find_if(all.files.begin(), all.files.end(),
                                   [&id](const auto& one) { return one.record.id == id; });
    if (file == all.files.end() || IsGone(file->record, all)) return NoSuchFile(id);
    for (const auto& job : all.jobs) {
      if (Needs(job.record, id)) return FileIsNeeded(job.record.id);
    }
    const std::string guard = LearningTenantKey(tenant);
    ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                     store_.Commit({.compares = {EtcdCompare::ModRevision(guard, all.guard)},
                                    .then = {EtcdOperation::Put(guard, ""),
                                             EtcdOperation::Delete(LearningFileKey(tenant, id))}}));
    if (!outcome.succeeded) continue;
    folder_.RemoveFile(id);
    return OkStatus();
  }
  return TooManyRaces();
}

Result<Page<LearningFile>> EtcdLearningStore::ListFiles(const std::string& tenant,
                                                        const std::string& purpose,
                                                        const PageQuery& query) {
  RETURN_IF_ERROR(JoinFolder());
  ASSIGN_OR_RETURN(const Tenant all, ReadTenant(tenant));
  return PageOf<LearningFile>(all.files, query, [&](const LearningFile& file) {
    return (purpose.empty() || file.purpose == purpose) && !IsGone(file, all);
  });
}

// ---- jobs

Status EtcdLearningStore::AddJob(const LearningJob& job, const JobLimits& limits) {
  RETURN_IF_ERROR(JoinFolder());
  for (int i = 0; i < kLearningTriesMax; ++i) {
    ASSIGN_OR_RETURN(const bool added, TryAddJob(job, limits));
    if (added) return OkStatus();
  }
  return TooManyRaces();
}

Result<bool> EtcdLearningStore::TryAddJob(const LearningJob& job, const JobLimits& limits) {
  ASSIGN_OR_RETURN(const Tenant tenant, ReadTenant(job.tenant));
  for (const std::string& id : FilesOf(job)) {
    const auto file = std::find_if(tenant.files.begin(), tenant.files.end(),
                                   [&id](const auto& one) { return one.record.id == id; });
    if (file == tenant.files.end() || IsGone(file->record, tenant)) return NoSuchFile(id);
  }
  JobRoom room;
  std::vector<std::string> old;  // that may be forgotten, oldest first
  for (const auto& [other, place, revision] : tenant.jobs) {
    const bool is_finished = IsFinished(other.status);
    room.unfinished += is_finished ? 0 : 1;
    room.adapters += other.adapter.empty() ? 0 : 1;
    room.adapter_bytes += other.adapter.empty() ? 0 : other.bytes;
    if (is_finished && other.adapter.empty()) old.push_back(other.id);
  }
  RETURN_IF_ERROR(CheckJobRoom(room, limits));
  const std::string guard = LearningTenantKey(job.tenant);
  const JobEvent created = {
      .number = 1, .created_at = now(), .message = "Created fine-tuning job: " + job.id};
  EtcdTransaction transaction;
  transaction.compares = {EtcdCompare::ModRevision(guard, tenant.guard)};
  transaction.then = {
      EtcdOperation::Put(guard, ""),
      EtcdOperation::Put(LearningJobKey(job.tenant, job.id), ToJson(job)),
      EtcdOperation::Put(OpenJobKey(job.id), OpenJob{.tenant = job.tenant}.Value()),
      EtcdOperation::Put(NumberedKey(JobEventsKey(job.tenant, job.id), 1), ToJson(created))};
  const size_t num_old = old.size() - std::min(old.size(), options_.jobs_kept - 1);
  for (size_t i = 0; i < std::min(num_old, kDroppedMax); ++i) {
    for (EtcdOperation& drop : std::vector<EtcdOperation>{
             EtcdOperation::Delete(LearningJobKey(job.tenant, old[i])),
             EtcdOperation::DeletePrefix(JobEventsKey(job.tenant, old[i])),
             EtcdOperation::DeletePrefix(JobCheckpointsKey(job.tenant, old[i]))}) {
      transaction.then.push_back(std::move(drop));
    }
  }
  TrimFinished(tenant, &transaction);
  ASSIGN_OR_RETURN(const EtcdOutcome outcome, store_.Commit(std::move(transaction)));
  return outcome.succeeded;
}

// Deletes the events and checkpoints of jobs that ended long ago, which are most of what etcd keeps
// of them; the jobs stay. Few have ended since the last job was added.
void EtcdLearningStore::TrimFinished(const Tenant& tenant, EtcdTransaction* transaction) const {
  std::vector<std::string> finished;  // oldest first
  for (const Kept<LearningJob>& job : tenant.jobs) {
    if (IsFinished(job.record.status)) finished.push_back(job.record.id);
  }
  const size_t num_over = finished.size() - std::min(finished.size(), options_.jobs_whole);
  for (size_t i = num_over - std::min(num_over, kDroppedMax); i < num_over; ++i) {
    const std::string& owner = tenant.jobs.front().record.tenant;
    transaction->then.push_back(EtcdOperation::DeletePrefix(JobEventsKey(owner, finished[i])));
    transaction->then.push_back(EtcdOperation::DeletePrefix(JobCheckpointsKey(owner, finished[i])));
  }
}

Result<LearningJob> EtcdLearningStore::FindJob(const std::string& tenant, const std::string& id) {
  RETURN_IF_ERROR(JoinFolder());
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store_.Commit({.then = {EtcdOperation::Get(LearningJobKey(tenant, id)),
                                           EtcdOperation::Get(JobCancelKey(tenant, id))}}));
  if (id.empty() || outcome.found[0].empty()) return NoSuchJob(id);
  ASSIGN_OR_RETURN(LearningJob job, LearningJobOf(outcome.found[0][0].value));
  job.is_cancelled = !outcome.found[1].empty();
  return job;
}

Result<Page<LearningJob>> EtcdLearningStore::ListJobs(const std::string& tenant,
                                                      const PageQuery& query) {
  RETURN_IF_ERROR(JoinFolder());
  ASSIGN_OR_RETURN(const Tenant all, ReadTenant(tenant));
  return PageOf<LearningJob>(all.jobs, query, [](const LearningJob&) { return true; });
}

Result<LearningJob> EtcdLearningStore::Cancel(const std::string& tenant, const std::string& id) {
  RETURN_IF_ERROR(JoinFolder());
  for (int i = 0; i < kLearningTriesMax; ++i) {
    LearningJob job;
    ASSIGN_OR_RETURN(const bool done, TryCancel(tenant, id, &job));
    if (done) return job;
  }
  return TooManyRaces();
}

Result<bool> EtcdLearningStore::TryCancel(const std::string& tenant, const std::string& id,
                                          LearningJob* job) {
  ASSIGN_OR_RETURN(const EtcdOutcome known,
                   store_.Commit({.then = {EtcdOperation::Get(LearningJobKey(tenant, id)),
                                           EtcdOperation::Get(JobClaimKey(id)),
                                           EtcdOperation::GetPrefix(JobEventsKey(tenant, id))}}));
  if (id.empty() || known.found[0].empty()) return NoSuchJob(id);
  ASSIGN_OR_RETURN(*job, LearningJobOf(known.found[0][0].value));
  if (IsFinished(job->status)) return JobIsFinished(*job);
  job->is_cancelled = true;
  const std::string claim = JobClaimKey(id);
  if (!known.found[1].empty()) {
    ASSIGN_OR_RETURN(const EtcdOutcome marked,
                     store_.Commit({.compares = {EtcdCompare::Present(claim)},
                                    .then = {EtcdOperation::Put(JobCancelKey(tenant, id), "")}}));
    return marked.succeeded;
  }
  // No runner has it, whether one had it before or not.
  job->status = JobStatus::kCancelled;
  job->finished_at = now();
  job->estimated_finish = 0;
  JobEvent event = {.number = 1,
                    .created_at = now(),
                    .message = job->started_at == 0 ? "Cancelled before it began"
                                                    : "Cancelled while no runner had it"};
  if (!known.found[2].empty()) {
    ASSIGN_OR_RETURN(const JobEvent last, JobEventOf(known.found[2].back().value));
    event.number = last.number + 1;
  }
  ASSIGN_OR_RETURN(
      const EtcdOutcome ended,
      store_.Commit(
          {.compares = {EtcdCompare::Absent(claim),
                        EtcdCompare::ModRevision(known.found[0][0].key,
                                                 known.found[0][0].mod_revision)},
           .then = {EtcdOperation::Put(LearningJobKey(tenant, id), ToJson(*job)),
                    EtcdOperation::Delete(OpenJobKey(id)),
                    EtcdOperation::Delete(JobCancelKey(tenant, id)),
                    EtcdOperation::Delete(JobProgressKey(tenant, id)),
                    EtcdOperation::Put(NumberedKey(JobEventsKey(tenant, id), event.number),
                                       ToJson(event))}}));
  return ended.succeeded;
}

Result<Page<JobEvent>> EtcdLearningStore::ListEvents(const std::string& tenant,
                                                     const std::string& job,
                                                     const PageQuery& query) {
  RETURN_IF_ERROR(FindJob(tenant, job).status());
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store_.Commit({.then = {EtcdOperation::GetPrefix(JobEventsKey(tenant, job))}}));
  std::vector<JobEvent> events;
  for (const EtcdKeyValue& item : outcome.found[0]) {
    ASSIGN_OR_RETURN(JobEvent event, JobEventOf(item.value));
    events.push_back(std::move(event));
  }
  return NumberedPage<JobEvent>(events, query, [](const JobEvent& event) { return event.number; });
}

Result<Page<JobCheckpoint>> EtcdLearningStore::ListCheckpoints(const std::string& tenant,
                                                               const std::string& job,
                                                               const PageQuery& query) {
  RETURN_IF_ERROR(FindJob(tenant, job).status());
  ASSIGN_OR_RETURN(
      const EtcdOutcome outcome,
      store_.Commit({.then = {EtcdOperation::GetPrefix(JobCheckpointsKey(tenant, job))}}));
  std::vector<JobCheckpoint> checkpoints;
  for (const EtcdKeyValue& item : outcome.found[0]) {
    ASSIGN_OR_RETURN(const JobCheckpoint checkpoint, JobCheckpointOf(item.value));
    checkpoints.push_back(checkpoint);
  }
  return NumberedPage<JobCheckpoint>(
      checkpoints, query, [](const JobCheckpoint& checkpoint) { return checkpoint.step; });
}

Result<std::string> EtcdLearningStore::TenantOf(const std::string& job) {
  RETURN_IF_ERROR(JoinFolder());
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store_.Commit({.then = {EtcdOperation::Get(OpenJobKey(job))}}));
  const std::vector<OpenJob> open = OpenJobsOf(outcome.found[0]);
  if (job.empty() || open.empty()) return NoSuchJob(job);
  return open[0].tenant;
}

// An etcd that was restored from a view has the names, and no jobs.
Result<LearningJob> EtcdLearningStore::FindLearned(const std::string& tenant,
                                                   const std::string& adapter) {
  RETURN_IF_ERROR(JoinFolder());
  ASSIGN_OR_RETURN(const Tenant all, ReadTenant(tenant));
  for (const auto& [job, place, revision] : all.jobs) {
    if (!adapter.empty() && job.adapter == adapter) return job;
  }
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store_.Commit({.then = {EtcdOperation::Get(AdapterKey(adapter))}}));
  if (outcome.found[0].empty()) return NoSuchLearnedModel(adapter);
  ASSIGN_OR_RETURN(const AdapterVersion known, DecodeAdapterVersion(outcome.found[0][0].value));
  if (known.entry.owner != tenant) return NoSuchLearnedModel(adapter);
  LearningJob job;
  job.tenant = tenant;
  job.adapter = adapter;
  job.folder = known.entry.path;
  return job;
}

Status EtcdLearningStore::ForgetAdapter(const LearningJob& learned) {
  folder_.LetGo(learned.folder_name());
  const std::string key = LearningJobKey(learned.tenant, learned.id);
  for (int i = 0; i < kLearningTriesMax && !learned.id.empty(); ++i) {
    ASSIGN_OR_RETURN(const EtcdOutcome known, store_.Commit({.then = {EtcdOperation::Get(key)}}));
    if (known.found[0].empty()) break;
    ASSIGN_OR_RETURN(LearningJob job, LearningJobOf(known.found[0][0].value));
    job.adapter.clear();
    ASSIGN_OR_RETURN(
        const EtcdOutcome outcome,
        store_.Commit({.compares = {EtcdCompare::ModRevision(key, known.found[0][0].mod_revision)},
                       .then = {EtcdOperation::Put(key, ToJson(job))}}));
    if (outcome.succeeded) break;
    if (i + 1 == kLearningTriesMax) return TooManyRaces();
  }
  return OkStatus();
}

std::string EtcdLearningStore::OpenJob::Value() const {
  return DumpJson({{"tenant", tenant}, {"begun", has_begun}, {"begins", begins}});
}

std::vector<EtcdLearningStore::OpenJob> EtcdLearningStore::OpenJobsOf(
    const std::vector<EtcdKeyValue>& items) {
  std::vector<OpenJob> jobs;
  for (const EtcdKeyValue& item : items) {
    const Result<Json> json = ParseJson(item.value);
    if (!json.ok() || !json->is_object()) continue;
    const auto tenant = json->find("tenant"), begun = json->find("begun");
    if (tenant == json->end() || !tenant->is_string()) continue;
    OpenJob job;
    job.id = NameInKey(item.key, kOpenJobsPrefix);
    job.tenant = tenant->get<std::string>();
    job.has_begun = begun != json->end() && *begun == true;
    ReadField(*json, "begins", &job.begins);
    job.place = item.create_revision;
    job.mod_revision = item.mod_revision;
    jobs.push_back(std::move(job));
  }
  SortByPlace(&jobs);
  return jobs;
}

Result<JobsOverview> EtcdLearningStore::Overview(int32_t rows_max) {
  ASSIGN_OR_RETURN(
      const EtcdOutcome listed,
      store_.Commit({.then = {EtcdOperation::GetPrefix(std::string(kOpenJobsPrefix))}}));
  std::vector<OpenJob> open = OpenJobsOf(listed.found[0]);
  std::reverse(open.begin(), open.end());
  JobsOverview overview;
  for (size_t begin = 0; begin < open.size(); begin += kOpenJobsRead) {
    EtcdTransaction look;
    for (size_t i = begin; i < std::min(open.size(), begin + kOpenJobsRead); ++i) {
      look.then.push_back(EtcdOperation::Get(LearningJobKey(open[i].tenant, open[i].id)));
      look.then.push_back(EtcdOperation::Get(JobProgressKey(open[i].tenant, open[i].id)));
    }
    ASSIGN_OR_RETURN(const EtcdOutcome outcome, store_.Commit(std::move(look)));
    for (size_t i = 0; i + 1 < outcome.found.size(); i += 2) {
      if (outcome.found[i].empty()) continue;  // finished meanwhile
      ASSIGN_OR_RETURN(LearningJob job, LearningJobOf(outcome.found[i][0].value));
      ++overview.counts[static_cast<size_t>(job.status)];
      if (overview.rows.size() == static_cast<size_t>(rows_max)) continue;
      const auto& progress = outcome.found[i + 1];
      overview.rows.push_back({std::move(job), progress.empty() ? "" : progress[0].value});
    }
  }
  return overview;
}

}  // namespace graft
