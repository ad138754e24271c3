#include "jobs/sqlite_learning_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "jobs/sqlite_learning_rows.h"

namespace graft {
namespace {

// Tables that a file lacks are added to it; a changed one needs another version.
constexpr int64_t kLearningSchemaVersion = 1;
constexpr int64_t kJobsKept = 1000;  // of a tenant, besides those with adapters

#define GRAFT_UNFINISHED "('queued', 'validating_files', 'running')"
// Jobs that need a file, as `job` and `file`: the document, and what its adapter is to leave alone.
#define GRAFT_NEEDED_FILES                                                                      \
  "(SELECT id AS job, tenant, training_file AS file FROM job WHERE status IN " GRAFT_UNFINISHED \
  " UNION ALL SELECT job.id, job.tenant, kept.value FROM job, json_each("                       \
  "CASE WHEN json_valid(job.method) THEN job.method ELSE '{}' END, '$.keep_text') AS kept "     \
  "WHERE job.status IN " GRAFT_UNFINISHED ")"

// `begun` counts a job's begins without an end; `turn` has the tenants in the order of their last
// turns.
std::string LearningSchema() {
  const std::string place = " (place INTEGER PRIMARY KEY AUTOINCREMENT, ";
  const std::string of_job = " (job TEXT NOT NULL, ";
  return "CREATE TABLE IF NOT EXISTS file" + place + Definitions<LearningFile>() + R"() STRICT;
  CREATE INDEX IF NOT EXISTS file_tenant ON file (tenant, place);
  CREATE INDEX IF NOT EXISTS file_expiry ON file (expires_at);
  CREATE TABLE IF NOT EXISTS content (
    place INTEGER PRIMARY KEY REFERENCES file (place),
    bytes BLOB NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS job)" +
         place + Definitions<LearningJob>() + R"() STRICT;
  CREATE INDEX IF NOT EXISTS job_tenant ON job (tenant, place);
  CREATE INDEX IF NOT EXISTS job_status ON job (status);
  CREATE INDEX IF NOT EXISTS job_file ON job (training_file);
  CREATE TABLE IF NOT EXISTS event)" +
         of_job + Definitions<JobEvent>() + R"(, PRIMARY KEY (job, number)) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS begun (
    job    TEXT PRIMARY KEY,
    begins INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS turn (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT UNIQUE NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS checkpoint)" +
         of_job + Definitions<JobCheckpoint>() + ", PRIMARY KEY (job, step)) STRICT, WITHOUT ROWID";
}

// With the last figures that each told of itself.
std::string JobsWithProgress() {
  return "SELECT " + ColumnsOf<LearningJob>() +
         ", COALESCE((SELECT data FROM event WHERE event.job = job.id AND data != '' ORDER BY "
         "number DESC LIMIT 1), '') FROM job ";
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

// One row more than the page has says whether there are more.
template <typename T>
Result<Page<T>> PageOf(SqliteStatement& list, int32_t limit) {
  Page<T> page;
  while (list.Next()) {
    if (static_cast<int32_t>(page.items.size()) == limit) {
      page.has_more = true;
      return page;
    }
    page.items.push_back(RowOf<T>(list));
  }
  RETURN_IF_ERROR(list.status());
  return page;
}

}  // namespace

Result<std::unique_ptr<SqliteLearningStore>> SqliteLearningStore::Open(
    const std::string& path, std::function<int64_t()> unix_seconds) {
  std::unique_ptr<SqliteLearningStore> store(new SqliteLearningStore(std::move(unix_seconds)));
  if (path != ":memory:") RETURN_IF_ERROR(MakeOwn(path));
  const Status opened = store->database_.Open(path, kLearningSchemaVersion, LearningSchema());
  if (!opened.ok()) return opened.WithContext(path);
  return store;
}

Status SqliteLearningStore::DropExpired() {
  SqliteStatement any(database_, "SELECT 1 FROM file WHERE expires_at > 0 AND expires_at <= ?");
  if (!any.Bind(now()).Next()) return any.status();
  constexpr char kExpired[] =
      "DELETE FROM content WHERE place IN (SELECT place FROM file WHERE expires_at > 0 AND "
      "expires_at <= ? AND id NOT IN (SELECT file FROM " GRAFT_NEEDED_FILES "))";
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
  RETURN_IF_ERROR(InsertRow(database_, "INSERT INTO file", file));
  constexpr char kContent[] =
      "INSERT INTO content (place, bytes) SELECT place, ? FROM file WHERE id = ?";
  RETURN_IF_ERROR(SqliteStatement(database_, kContent).BindBytes(content).Bind(file.id).Run());
  return transaction.Commit();
}

Result<LearningFile> SqliteLearningStore::FindFile(const std::string& tenant,
                                                   const std::string& id) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(DropExpired());
  SqliteStatement find(
      database_, "SELECT " + ColumnsOf<LearningFile>() + " FROM file WHERE tenant = ? AND id = ?");
  if (find.Bind(tenant).Bind(id).Next()) return RowOf<LearningFile>(find);
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
      database_, "SELECT job FROM " GRAFT_NEEDED_FILES " WHERE file = ? AND tenant = ? LIMIT 1");
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
  const bool is_up = query.is_ascending;
  SqliteStatement list(database_, "SELECT " + ColumnsOf<LearningFile>() +
                                      " FROM file WHERE tenant = ? AND " +
                                      (is_up ? "place > ?" : "place < ?") +
                                      " AND (? = '' OR purpose = ?) ORDER BY place " +
                                      (is_up ? "" : "DESC ") + "LIMIT ?");
  list.Bind(tenant).Bind(place).Bind(purpose).Bind(purpose).Bind(int64_t{query.limit} + 1);
  return PageOf<LearningFile>(list, query.limit);
}

Status SqliteLearningStore::AddJob(const LearningJob& job, const JobLimits& limits) {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  RETURN_IF_ERROR(transaction.status());
  RETURN_IF_ERROR(DropExpired());
  for (const std::string& id : FilesOf(job)) {
    SqliteStatement file(database_, "SELECT 1 FROM file WHERE tenant = ? AND id = ?");
    if (file.Bind(job.tenant).Bind(id).Next()) continue;
    RETURN_IF_ERROR(file.status());
    return NoSuchFile(id);
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
  RETURN_IF_ERROR(InsertRow(database_, "INSERT INTO job", job));
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
  SqliteStatement find(
      database_, "SELECT " + ColumnsOf<LearningJob>() + " FROM job WHERE tenant = ? AND id = ?");
  if (find.Bind(tenant).Bind(id).Next()) return RowOf<LearningJob>(find);
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
  SqliteStatement list(database_, "SELECT " + ColumnsOf<LearningJob>() +
                                      " FROM job WHERE tenant = ? AND place < ? "
                                      "ORDER BY place DESC LIMIT ?");
  list.Bind(tenant).Bind(place).Bind(int64_t{query.limit} + 1);
  return PageOf<LearningJob>(list, query.limit);
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
                       "SELECT " + ColumnsOf<JobEvent>() +
                           " FROM event WHERE job = ? AND number < ? ORDER BY number DESC LIMIT ?");
  list.Bind(job).Bind(after).Bind(int64_t{query.limit} + 1);
  return PageOf<JobEvent>(list, query.limit);
}

Result<Page<JobCheckpoint>> SqliteLearningStore::ListCheckpoints(const std::string& tenant,
                                                                 const std::string& job,
                                                                 const PageQuery& query) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t after, AfterNumber(tenant, job, query));
  SqliteStatement list(
      database_, "SELECT " + ColumnsOf<JobCheckpoint>() +
                     " FROM checkpoint WHERE job = ? AND step < ? ORDER BY step DESC LIMIT ?");
  list.Bind(job).Bind(after).Bind(int64_t{query.limit} + 1);
  return PageOf<JobCheckpoint>(list, query.limit);
}

Result<std::vector<LearningJob>> SqliteLearningStore::ListLearned() {
  std::lock_guard lock(mutex_);
  SqliteStatement list(database_, "SELECT " + ColumnsOf<LearningJob>() +
                                      " FROM job WHERE status = 'succeeded' AND adapter != '' "
                                      "ORDER BY place");
  std::vector<LearningJob> jobs;
  while (list.Next()) jobs.push_back(RowOf<LearningJob>(list));
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
  SqliteStatement find(database_,
                       "SELECT " + ColumnsOf<LearningJob>() +
                           " FROM job WHERE tenant = ? AND adapter = ? AND adapter != ''");
  if (find.Bind(tenant).Bind(adapter).Next()) return RowOf<LearningJob>(find);
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
      "WHERE status IN " GRAFT_UNFINISHED " ORDER BY place DESC LIMIT ?",
      "WHERE status NOT IN " GRAFT_UNFINISHED " ORDER BY place DESC LIMIT ?"};
  for (const char* const which : kLists) {
    SqliteStatement list(database_, JobsWithProgress() + which);
    list.Bind(int64_t{rows_max} - static_cast<int64_t>(overview.rows.size()));
    while (list.Next()) {
      overview.rows.push_back({RowOf<LearningJob>(list), list.Text(NumColumns<LearningJob>())});
    }
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
    SqliteStatement next(
        database_, "SELECT " + ColumnsOf<LearningJob>() +
                       ", COALESCE((SELECT begins FROM begun WHERE begun.job = waiting.id), 0) "
                       "FROM job AS waiting WHERE status IN " GRAFT_UNFINISHED
                       " ORDER BY COALESCE((SELECT number FROM turn "
                       "WHERE turn.tenant = waiting.tenant), 0), started_at = 0, place LIMIT 1");
    if (!next.Next()) {
      RETURN_IF_ERROR(next.status());
      return job;
    }
    job = RowOf<LearningJob>(next);
    job->begins = static_cast<int32_t>(next.Integer(NumColumns<LearningJob>())) + 1;
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
  std::string changes;
  VisitProgress(job, [&changes](const char* field, const auto&) {
    changes += (changes.empty() ? "" : ", ") + std::string(ColumnOf(field)) + " = ?";
  });
  SqliteStatement update(database_, "UPDATE job SET " + changes + " WHERE id = ?");
  VisitProgress(job, [&](const char*, const auto& value) { BindColumn(update, value); });
  return update.Bind(job.id).Run();
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
  SqliteStatement last(database_, "SELECT COALESCE(MAX(number), 0) FROM event WHERE job = ?");
  if (!last.Bind(job).Next()) return last.status();
  JobEvent written = event;
  written.number = last.Integer(0) + 1;
  written.created_at = now();
  return InsertRow(database_, "INSERT INTO event", written, &job);
}

Status SqliteLearningStore::AddEvent(const std::string& job, const JobEvent& event) {
  std::lock_guard lock(mutex_);
  return WriteEvent(job, event);
}

Status SqliteLearningStore::AddCheckpoint(const std::string& job, const JobCheckpoint& checkpoint) {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(database_);
  RETURN_IF_ERROR(transaction.status());
  JobCheckpoint written = checkpoint;
  written.created_at = now();
  RETURN_IF_ERROR(InsertRow(database_, "INSERT OR REPLACE INTO checkpoint", written, &job));
  constexpr char kOld[] =
      "DELETE FROM checkpoint WHERE job = ? AND step NOT IN "
      "(SELECT step FROM checkpoint WHERE job = ? ORDER BY step DESC LIMIT ?)";
  RETURN_IF_ERROR(
      SqliteStatement(database_, kOld).Bind(job).Bind(job).Bind(kCheckpointsKept).Run());
  return transaction.Commit();
}

#undef GRAFT_NEEDED_FILES
#undef GRAFT_UNFINISHED

}  // namespace graft
