#include "jobs/sqlite_learning_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "jobs/sqlite_learning_schema.h"

namespace graft {
namespace {

constexpr int kNumJobColumns = 24;   // of GRAFT_JOB_COLUMNS
constexpr int64_t kJobsKept = 1000;  // of a tenant, besides those with adapters

#define GRAFT_UNFINISHED "('queued', 'validating_files', 'running')"
#define GRAFT_JOB_COLUMNS                                                               \
  "id, tenant, base_model, training_file, suffix, metadata, seed, method, created_at, " \
  "status, is_cancelled, started_at, finished_at, estimated_finish, trained_tokens, "   \
  "error_code, error_message, error_param, adapter, hash, rank_max, bytes, base_hash, " \
  "virtual_tokens"
// And the last figures that it told of itself.
#define GRAFT_JOB_PROGRESS                                                               \
  GRAFT_JOB_COLUMNS                                                                      \
  ", COALESCE((SELECT data FROM event WHERE event.job = job.id AND data != '' ORDER BY " \
  "number DESC LIMIT 1), '')"
#define GRAFT_FILE_COLUMNS "id, tenant, name, purpose, bytes, created_at, expires_at"

LearningFile FileOf(SqliteStatement& row) {
  return {.id = row.Text(0),
          .tenant = row.Text(1),
          .name = row.Text(2),
          .purpose = row.Text(3),
          .bytes = row.Integer(4),
          .created_at = row.Integer(5),
          .expires_at = row.Integer(6)};
}

LearningJob JobOf(SqliteStatement& row) {
  LearningJob job;
  job.id = row.Text(0);
  job.tenant = row.Text(1);
  job.base_model = row.Text(2);
  job.training_file = row.Text(3);
  job.suffix = row.Text(4);
  job.metadata = row.Text(5);
  job.seed = static_cast<uint32_t>(row.Integer(6));
  job.method = DocumentMethodOf(row.Text(7));
  job.created_at = row.Integer(8);
  job.status = JobStatusOf(row.Text(9));
  job.is_cancelled = row.Integer(10) != 0;
  job.started_at = row.Integer(11);
  job.finished_at = row.Integer(12);
  job.estimated_finish = row.Integer(13);
  job.trained_tokens = row.Integer(14);
  job.error = {row.Text(15), row.Text(16), row.Text(17)};
  job.adapter = row.Text(18);
  job.hash = row.Text(19);
  job.rank_max = static_cast<int32_t>(row.Integer(20));
  job.bytes = row.Integer(21);
  job.base_hash = row.Text(22);
  job.num_virtual_tokens = static_cast<int32_t>(row.Integer(23));
  return job;
}

// Documents of all tenants: no other user reads the file, nor what SQLite has beside it, which gets
// the file's rights when it is made and may be left of a server that was killed.
Status MakeOwn(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError(errno, "cannot open " + path);
  close(fd);
  for (const char* const part : {"", "-wal", "-shm"}) {
    if (chmod((path + part).c_str(), 0600) == 0 || errno == ENOENT) continue;
    // Another user's, or a disk that has no rights: it was served from so far.
    LOG_WARN("other users may read {}: {}", path + part, SystemError(errno, "chmod").message());
  }
  return OkStatus();
}

// The rows that `read` makes of one more than the page has say whether there are more.
template <typename T, typename Read>
Result<Page<T>> PageOf(SqliteStatement& list, int32_t limit, const Read& read) {
  Page<T> page;
  while (list.Next()) {
    if (static_cast<int32_t>(page.items.size()) == limit) {
      page.has_more = true;
      return page;
    }
    page.items.push_back(read(list));
  }
  RETURN_IF_ERROR(list.status());
  return page;
}

}  // namespace

Result<std::unique_ptr<SqliteLearningStore>> SqliteLearningStore::Open(
    const std::string& path, std::function<int64_t()> unix_seconds) {
  std::unique_ptr<SqliteLearningStore> store(new SqliteLearningStore(std::move(unix_seconds)));
  if (path != ":memory:") RETURN_IF_ERROR(MakeOwn(path));
  const Status opened = store->database_.Open(path, kLearningSchemaVersion, kLearningSchema);
  if (!opened.ok()) return opened.WithContext(path);
  return store;
}

Status SqliteLearningStore::DropExpired() {
  SqliteStatement any(database_, "SELECT 1 FROM file WHERE expires_at > 0 AND expires_at <= ?");
  if (!any.Bind(now()).Next()) return any.status();
  constexpr char kExpired[] =
      "DELETE FROM content WHERE place IN (SELECT place FROM file WHERE expires_at > 0 AND "
      "expires_at <= ? AND id NOT IN (SELECT training_file FROM job WHERE status "
      "IN " GRAFT_UNFINISHED "))";
  RETURN_IF_ERROR(SqliteStatement(database_, kExpired).Bind(now()).Run());
  return database_.Execute("DELETE FROM file WHERE place NOT IN (SELECT place FROM content)");
}

Result<int64_t> SqliteLearningStore::Count(const char* sql, const std::string& tenant) {
  SqliteStatement count(database_, sql);
  if (!count.Bind(tenant).Next()) return count.status();
  return count.Integer(0);
}

Status SqliteLearningStore::AddFile(const LearningFile& file, std::string_view content,
                                    int64_t tenant_bytes_max) {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  RETURN_IF_ERROR(transaction.status());
  RETURN_IF_ERROR(DropExpired());
  ASSIGN_OR_RETURN(const int64_t bytes,
                   Count("SELECT COALESCE(SUM(bytes), 0) FROM file WHERE tenant = ?", file.tenant));
  ASSIGN_OR_RETURN(const int64_t num_files,
                   Count("SELECT COUNT(*) FROM file WHERE tenant = ?", file.tenant));
  RETURN_IF_ERROR(
      CheckFileRoom(static_cast<size_t>(num_files), bytes, file.bytes, tenant_bytes_max));
  constexpr char kInsert[] =
      "INSERT INTO file (" GRAFT_FILE_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)";
  RETURN_IF_ERROR(SqliteStatement(database_, kInsert)
                      .Bind(file.id)
                      .Bind(file.tenant)
                      .Bind(file.name)
                      .Bind(file.purpose)
                      .Bind(file.bytes)
                      .Bind(file.created_at)
                      .Bind(file.expires_at)
                      .Run());
  constexpr char kContent[] =
      "INSERT INTO content (place, bytes) SELECT place, ? FROM file WHERE id = ?";
  RETURN_IF_ERROR(SqliteStatement(database_, kContent).BindBytes(content).Bind(file.id).Run());
  return transaction.Commit();
}

Result<LearningFile> SqliteLearningStore::FindFile(const std::string& tenant,
                                                   const std::string& id) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(DropExpired());
  SqliteStatement find(database_,
                       "SELECT " GRAFT_FILE_COLUMNS " FROM file WHERE tenant = ? AND id = ?");
  if (find.Bind(tenant).Bind(id).Next()) return FileOf(find);
  RETURN_IF_ERROR(find.status());
  return NoSuchFile(id);
}

Result<std::string> SqliteLearningStore::FileContent(const std::string& tenant,
                                                     const std::string& id) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(DropExpired());
  SqliteStatement find(database_,
                       "SELECT content.bytes FROM file JOIN content USING (place) "
                       "WHERE tenant = ? AND id = ?");
  if (find.Bind(tenant).Bind(id).Next()) return find.Text(0);
  RETURN_IF_ERROR(find.status());
  return NoSuchFile(id);
}

Status SqliteLearningStore::DeleteFile(const std::string& tenant, const std::string& id) {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  RETURN_IF_ERROR(transaction.status());
  RETURN_IF_ERROR(DropExpired());
  SqliteStatement needs(
      database_,
      "SELECT id FROM job WHERE training_file = ? AND tenant = ? AND status IN " GRAFT_UNFINISHED);
  if (needs.Bind(id).Bind(tenant).Next()) {
    return FileIsNeeded(needs.Text(0));
  }
  RETURN_IF_ERROR(needs.status());
  SqliteStatement remove(database_, "DELETE FROM file WHERE tenant = ? AND id = ?");
  RETURN_IF_ERROR(remove.Bind(tenant).Bind(id).Run());
  if (database_.num_changed() == 0) return NoSuchFile(id);
  RETURN_IF_ERROR(
      database_.Execute("DELETE FROM content WHERE place NOT IN (SELECT place FROM file)"));
  return transaction.Commit();
}

Result<int64_t> SqliteLearningStore::PlaceOf(const char* sql, const std::string& tenant,
                                             const PageQuery& query) {
  if (query.after.empty()) {
    return query.is_ascending ? 0 : std::numeric_limits<int64_t>::max();
  }
  SqliteStatement find(database_, sql);
  if (find.Bind(tenant).Bind(query.after).Next()) return find.Integer(0);
  RETURN_IF_ERROR(find.status());
  return NothingAfter(query.after);
}

Result<Page<LearningFile>> SqliteLearningStore::ListFiles(const std::string& tenant,
                                                          const std::string& purpose,
                                                          const PageQuery& query) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(DropExpired());
  ASSIGN_OR_RETURN(const int64_t place,
                   PlaceOf("SELECT place FROM file WHERE tenant = ? AND id = ?", tenant, query));
  SqliteStatement list(
      database_, query.is_ascending
                     ? "SELECT " GRAFT_FILE_COLUMNS
                       " FROM file WHERE tenant = ? AND place > ? AND (? = '' OR purpose = ?) "
                       "ORDER BY place LIMIT ?"
                     : "SELECT " GRAFT_FILE_COLUMNS
                       " FROM file WHERE tenant = ? AND place < ? AND (? = '' OR purpose = ?) "
                       "ORDER BY place DESC LIMIT ?");
  list.Bind(tenant).Bind(place).Bind(purpose).Bind(purpose).Bind(int64_t{query.limit} + 1);
  return PageOf<LearningFile>(list, query.limit, FileOf);
}

Status SqliteLearningStore::AddJob(const LearningJob& job, const JobLimits& limits) {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  RETURN_IF_ERROR(transaction.status());
  RETURN_IF_ERROR(DropExpired());
  SqliteStatement file(database_, "SELECT 1 FROM file WHERE tenant = ? AND id = ?");
  if (!file.Bind(job.tenant).Bind(job.training_file).Next()) {
    RETURN_IF_ERROR(file.status());
    return NoSuchFile(job.training_file);
  }
  JobRoom room;
  ASSIGN_OR_RETURN(
      room.unfinished,
      Count("SELECT COUNT(*) FROM job WHERE tenant = ? AND status IN " GRAFT_UNFINISHED,
            job.tenant));
  ASSIGN_OR_RETURN(
      room.adapters,
      Count("SELECT COUNT(*) FROM job WHERE tenant = ? AND adapter != ''", job.tenant));
  ASSIGN_OR_RETURN(room.adapter_bytes,
                   Count("SELECT COALESCE(SUM(bytes), 0) FROM job WHERE tenant = ? AND "
                         "adapter != ''",
                         job.tenant));
  RETURN_IF_ERROR(CheckJobRoom(room, limits));
  RETURN_IF_ERROR(
      SqliteStatement(
          database_,
          "INSERT INTO job (id, tenant, base_model, training_file, suffix, "
          "metadata, seed, method, created_at, status, is_cancelled, "
          "started_at, finished_at, estimated_finish, trained_tokens, "
          "error_code, error_message, error_param, adapter, hash, "
          "rank_max, bytes, base_hash, virtual_tokens) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, "
          "'queued', 0, 0, 0, 0, 0, '', '', '', '', '', 0, 0, '', 0)")
          .Bind(job.id)
          .Bind(job.tenant)
          .Bind(job.base_model)
          .Bind(job.training_file)
          .Bind(job.suffix)
          .Bind(job.metadata)
          .Bind(int64_t{job.seed})
          .Bind(ToJson(job.method))
          .Bind(job.created_at)
          .Run());
  RETURN_IF_ERROR(WriteEvent(job.id, {.message = "Created fine-tuning job: " + job.id}));
  RETURN_IF_ERROR(DropOldJobs(job.tenant));
  return transaction.Commit();
}

Status SqliteLearningStore::DropOldJobs(const std::string& tenant) {
  constexpr char kOld[] =
      "DELETE FROM job WHERE tenant = ? AND adapter = '' AND status NOT IN " GRAFT_UNFINISHED
      " AND place NOT IN (SELECT place FROM job WHERE tenant = ? ORDER BY place DESC LIMIT ?)";
  RETURN_IF_ERROR(SqliteStatement(database_, kOld).Bind(tenant).Bind(tenant).Bind(kJobsKept).Run());
  if (database_.num_changed() == 0) return OkStatus();
  RETURN_IF_ERROR(database_.Execute("DELETE FROM begun WHERE job NOT IN (SELECT id FROM job)"));
  RETURN_IF_ERROR(database_.Execute("DELETE FROM event WHERE job NOT IN (SELECT id FROM job)"));
  return database_.Execute("DELETE FROM checkpoint WHERE job NOT IN (SELECT id FROM job)");
}

Result<LearningJob> SqliteLearningStore::ReadJob(const std::string& tenant, const std::string& id) {
  SqliteStatement find(database_,
                       "SELECT " GRAFT_JOB_COLUMNS " FROM job WHERE tenant = ? AND id = ?");
  if (find.Bind(tenant).Bind(id).Next()) return JobOf(find);
  RETURN_IF_ERROR(find.status());
  return NoSuchJob(id);
}

Result<LearningJob> SqliteLearningStore::FindJob(const std::string& tenant, const std::string& id) {
  std::lock_guard lock(mutex_);
  return ReadJob(tenant, id);
}

Result<Page<LearningJob>> SqliteLearningStore::ListJobs(const std::string& tenant,
                                                        const PageQuery& query) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t place,
                   PlaceOf("SELECT place FROM job WHERE tenant = ? AND id = ?", tenant, query));
  SqliteStatement list(database_, "SELECT " GRAFT_JOB_COLUMNS
                                  " FROM job WHERE tenant = ? AND place < ? "
                                  "ORDER BY place DESC LIMIT ?");
  list.Bind(tenant).Bind(place).Bind(int64_t{query.limit} + 1);
  return PageOf<LearningJob>(list, query.limit, JobOf);
}

Result<LearningJob> SqliteLearningStore::Cancel(const std::string& tenant, const std::string& id) {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  RETURN_IF_ERROR(transaction.status());
  ASSIGN_OR_RETURN(LearningJob job, ReadJob(tenant, id));
  if (IsFinished(job.status)) return JobIsFinished(job);
  job.is_cancelled = true;
  RETURN_IF_ERROR(
      SqliteStatement(database_, "UPDATE job SET is_cancelled = 1 WHERE id = ?").Bind(id).Run());
  if (job.status == JobStatus::kQueued && job.started_at == 0) {
    job.status = JobStatus::kCancelled;
    job.finished_at = now();
    RETURN_IF_ERROR(Write(job));
    RETURN_IF_ERROR(WriteEvent(id, {.message = "Cancelled before it began"}));
  }
  RETURN_IF_ERROR(transaction.Commit());
  return job;
}

Result<int64_t> SqliteLearningStore::AfterNumber(const std::string& tenant, const std::string& job,
                                                 const PageQuery& query) {
  RETURN_IF_ERROR(ReadJob(tenant, job).status());
  if (query.after.empty()) return std::numeric_limits<int64_t>::max();
  return NumberOfId(query.after);
}

Result<Page<JobEvent>> SqliteLearningStore::ListEvents(const std::string& tenant,
                                                       const std::string& job,
                                                       const PageQuery& query) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t after, AfterNumber(tenant, job, query));
  SqliteStatement list(database_,
                       "SELECT number, created_at, level, message, data FROM event "
                       "WHERE job = ? AND number < ? ORDER BY number DESC LIMIT ?");
  list.Bind(job).Bind(after).Bind(int64_t{query.limit} + 1);
  return PageOf<JobEvent>(list, query.limit, [](SqliteStatement& row) {
    return JobEvent{row.Integer(0), row.Integer(1), row.Text(2), row.Text(3), row.Text(4)};
  });
}

Result<Page<JobCheckpoint>> SqliteLearningStore::ListCheckpoints(const std::string& tenant,
                                                                 const std::string& job,
                                                                 const PageQuery& query) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t after, AfterNumber(tenant, job, query));
  SqliteStatement list(database_,
                       "SELECT step, created_at, loss FROM checkpoint "
                       "WHERE job = ? AND step < ? ORDER BY step DESC LIMIT ?");
  list.Bind(job).Bind(after).Bind(int64_t{query.limit} + 1);
  return PageOf<JobCheckpoint>(list, query.limit, [](SqliteStatement& row) {
    return JobCheckpoint{row.Integer(0), row.Integer(1), row.Real(2)};
  });
}

Result<std::vector<LearningJob>> SqliteLearningStore::ListLearned() {
  std::lock_guard lock(mutex_);
  SqliteStatement list(database_, "SELECT " GRAFT_JOB_COLUMNS
                                  " FROM job WHERE status = 'succeeded' AND adapter != '' "
                                  "ORDER BY place");
  std::vector<LearningJob> jobs;
  while (list.Next()) jobs.push_back(JobOf(list));
  RETURN_IF_ERROR(list.status());
  return jobs;
}

Result<std::string> SqliteLearningStore::TenantOf(const std::string& job) {
  std::lock_guard lock(mutex_);
  SqliteStatement find(database_,
                       "SELECT tenant FROM job WHERE id = ? AND status IN " GRAFT_UNFINISHED);
  if (find.Bind(job).Next()) return find.Text(0);
  RETURN_IF_ERROR(find.status());
  return NoSuchJob(job);
}

Result<LearningJob> SqliteLearningStore::FindLearned(const std::string& tenant,
                                                     const std::string& adapter) {
  std::lock_guard lock(mutex_);
  SqliteStatement find(database_, "SELECT " GRAFT_JOB_COLUMNS
                                  " FROM job WHERE tenant = ? AND adapter = ? AND adapter != ''");
  if (find.Bind(tenant).Bind(adapter).Next()) return JobOf(find);
  RETURN_IF_ERROR(find.status());
  return NoSuchLearnedModel(adapter);
}

Status SqliteLearningStore::ForgetAdapter(const LearningJob& job) {
  std::lock_guard lock(mutex_);
  return SqliteStatement(database_, "UPDATE job SET adapter = '' WHERE id = ?").Bind(job.id).Run();
}

// Two lists, each along its index: tenants may have many thousands of jobs.
Result<JobsOverview> SqliteLearningStore::Overview(int32_t rows_max) {
  std::lock_guard lock(mutex_);
  JobsOverview overview;
  SqliteStatement counts(database_, "SELECT status, COUNT(*) FROM job GROUP BY status");
  while (counts.Next()) {
    overview.counts[static_cast<size_t>(JobStatusOf(counts.Text(0)))] += counts.Integer(1);
  }
  RETURN_IF_ERROR(counts.status());
  constexpr const char* kLists[] = {
      "SELECT " GRAFT_JOB_PROGRESS " FROM job WHERE status IN " GRAFT_UNFINISHED
      " ORDER BY place DESC LIMIT ?",
      "SELECT " GRAFT_JOB_PROGRESS " FROM job WHERE status NOT IN " GRAFT_UNFINISHED
      " ORDER BY place DESC LIMIT ?"};
  for (const char* const sql : kLists) {
    SqliteStatement list(database_, sql);
    list.Bind(int64_t{rows_max} - static_cast<int64_t>(overview.rows.size()));
    while (list.Next()) overview.rows.push_back({JobOf(list), list.Text(kNumJobColumns)});
    RETURN_IF_ERROR(list.status());
  }
  return overview;
}

Result<std::optional<LearningJob>> SqliteLearningStore::NextJob() {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  RETURN_IF_ERROR(transaction.status());
  std::optional<LearningJob> job;
  {
    SqliteStatement next(database_,
                         "SELECT " GRAFT_JOB_COLUMNS
                         ", COALESCE((SELECT begins FROM begun WHERE begun.job = waiting.id), 0) "
                         "FROM job AS waiting WHERE status IN " GRAFT_UNFINISHED
                         " ORDER BY COALESCE((SELECT number FROM turn "
                         "WHERE turn.tenant = waiting.tenant), 0), started_at = 0, place LIMIT 1");
    if (!next.Next()) {
      RETURN_IF_ERROR(next.status());
      return job;
    }
    job = JobOf(next);
    job->begins = static_cast<int32_t>(next.Integer(kNumJobColumns)) + 1;
  }
  RETURN_IF_ERROR(
      SqliteStatement(database_, "INSERT OR REPLACE INTO begun (job, begins) VALUES (?, ?)")
          .Bind(job->id)
          .Bind(int64_t{job->begins})
          .Run());
  // With the highest number.
  RETURN_IF_ERROR(SqliteStatement(database_, "INSERT OR REPLACE INTO turn (tenant) VALUES (?)")
                      .Bind(job->tenant)
                      .Run());
  RETURN_IF_ERROR(transaction.Commit());
  return job;
}

Result<bool> SqliteLearningStore::OthersWait(const LearningJob& job) {
  std::lock_guard lock(mutex_);
  SqliteStatement other(
      database_, "SELECT 1 FROM job WHERE tenant != ? AND status IN " GRAFT_UNFINISHED " LIMIT 1");
  const bool there_is = other.Bind(job.tenant).Next();
  RETURN_IF_ERROR(other.status());
  return there_is;
}

Status SqliteLearningStore::GotOn(const std::string& job) {
  std::lock_guard lock(mutex_);
  return SqliteStatement(database_, "UPDATE begun SET begins = 1 WHERE job = ?").Bind(job).Run();
}

// The next start has it, or this one's next look.
void SqliteLearningStore::Leave(const LearningJob& job, bool is_fault) {
  if (is_fault) return;
  std::lock_guard lock(mutex_);
  const Status left = SqliteStatement(database_, "UPDATE begun SET begins = ? WHERE job = ?")
                          .Bind(int64_t{job.begins} - 1)
                          .Bind(job.id)
                          .Run();
  if (!left.ok()) LOG_WARN("fine-tuning job {}: {}", job.id, left.message());
}

Status SqliteLearningStore::Write(const LearningJob& job) {
  return SqliteStatement(database_,
                         "UPDATE job SET status = ?, started_at = ?, finished_at = ?, "
                         "estimated_finish = ?, trained_tokens = ?, error_code = ?, "
                         "error_message = ?, error_param = ?, adapter = ?, hash = ?, "
                         "rank_max = ?, bytes = ?, base_hash = ?, virtual_tokens = ? WHERE id = ?")
      .Bind(JobStatusName(job.status))
      .Bind(job.started_at)
      .Bind(job.finished_at)
      .Bind(job.estimated_finish)
      .Bind(job.trained_tokens)
      .Bind(job.error.code)
      .Bind(job.error.message)
      .Bind(job.error.param)
      .Bind(job.adapter)
      .Bind(job.hash)
      .Bind(int64_t{job.rank_max})
      .Bind(job.bytes)
      .Bind(job.base_hash)
      .Bind(int64_t{job.num_virtual_tokens})
      .Bind(job.id)
      .Run();
}

Status SqliteLearningStore::Update(const LearningJob& job) {
  std::lock_guard lock(mutex_);
  return Write(job);
}

Status SqliteLearningStore::Finish(const LearningJob& job, const JobEvent& event) {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  RETURN_IF_ERROR(transaction.status());
  RETURN_IF_ERROR(Write(job));
  RETURN_IF_ERROR(WriteEvent(job.id, event));
  return transaction.Commit();
}

Result<bool> SqliteLearningStore::IsCancelled(const std::string& job) {
  std::lock_guard lock(mutex_);
  SqliteStatement find(database_, "SELECT is_cancelled FROM job WHERE id = ?");
  if (!find.Bind(job).Next()) return find.status();
  return find.Integer(0) != 0;
}

Status SqliteLearningStore::WriteEvent(const std::string& job, const JobEvent& event) {
  return SqliteStatement(database_,
                         "INSERT INTO event (job, number, created_at, level, message, data) "
                         "SELECT ?, COALESCE(MAX(number), 0) + 1, ?, ?, ?, ? FROM event "
                         "WHERE job = ?")
      .Bind(job)
      .Bind(now())
      .Bind(event.level)
      .Bind(event.message)
      .Bind(event.data)
      .Bind(job)
      .Run();
}

Status SqliteLearningStore::AddEvent(const std::string& job, const JobEvent& event) {
  std::lock_guard lock(mutex_);
  return WriteEvent(job, event);
}

Status SqliteLearningStore::AddCheckpoint(const std::string& job, const JobCheckpoint& checkpoint) {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  RETURN_IF_ERROR(transaction.status());
  constexpr char kInsert[] =
      "INSERT OR REPLACE INTO checkpoint (job, step, created_at, loss) VALUES (?, ?, ?, ?)";
  RETURN_IF_ERROR(SqliteStatement(database_, kInsert)
                      .Bind(job)
                      .Bind(checkpoint.step)
                      .Bind(now())
                      .Bind(checkpoint.loss)
                      .Run());
  constexpr char kOld[] =
      "DELETE FROM checkpoint WHERE job = ? AND step NOT IN "
      "(SELECT step FROM checkpoint WHERE job = ? ORDER BY step DESC LIMIT ?)";
  RETURN_IF_ERROR(
      SqliteStatement(database_, kOld).Bind(job).Bind(job).Bind(kCheckpointsKept).Run());
  return transaction.Commit();
}

#undef GRAFT_UNFINISHED
#undef GRAFT_JOB_COLUMNS
#undef GRAFT_FILE_COLUMNS

}  // namespace graft
