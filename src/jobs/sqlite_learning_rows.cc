#include "jobs/sqlite_learning_rows.h"

#include <cstring>

#include "jobs/learning_fields.h"

namespace graft {
namespace {

const char* TypeOf(const std::string&) { return "TEXT"; }
const char* TypeOf(JobStatus) { return "TEXT"; }
const char* TypeOf(const DocumentMethod&) { return "TEXT"; }
const char* TypeOf(double) { return "REAL"; }
const char* TypeOf(int64_t) { return "INTEGER"; }
const char* TypeOf(int32_t) { return "INTEGER"; }
const char* TypeOf(uint32_t) { return "INTEGER"; }
const char* TypeOf(bool) { return "INTEGER"; }

void BindColumn(SqliteStatement& row, const std::string& value) { row.Bind(value); }
void BindColumn(SqliteStatement& row, JobStatus value) { row.Bind(JobStatusName(value)); }
void BindColumn(SqliteStatement& row, const DocumentMethod& value) { row.Bind(ToJson(value)); }
void BindColumn(SqliteStatement& row, double value) { row.Bind(value); }
void BindColumn(SqliteStatement& row, int64_t value) { row.Bind(value); }
void BindColumn(SqliteStatement& row, int32_t value) { row.Bind(int64_t{value}); }
void BindColumn(SqliteStatement& row, uint32_t value) { row.Bind(int64_t{value}); }
void BindColumn(SqliteStatement& row, bool value) { row.Bind(int64_t{value ? 1 : 0}); }

void ReadColumn(SqliteStatement& row, int column, std::string* out) { *out = row.Text(column); }
void ReadColumn(SqliteStatement& row, int column, JobStatus* out) {
  *out = JobStatusOf(row.Text(column));
}
void ReadColumn(SqliteStatement& row, int column, DocumentMethod* out) {
  *out = DocumentMethodOf(row.Text(column));
}
void ReadColumn(SqliteStatement& row, int column, double* out) { *out = row.Real(column); }
void ReadColumn(SqliteStatement& row, int column, int64_t* out) { *out = row.Integer(column); }
void ReadColumn(SqliteStatement& row, int column, int32_t* out) {
  *out = static_cast<int32_t>(row.Integer(column));
}
void ReadColumn(SqliteStatement& row, int column, uint32_t* out) {
  *out = static_cast<uint32_t>(row.Integer(column));
}
void ReadColumn(SqliteStatement& row, int column, bool* out) { *out = row.Integer(column) != 0; }

// A field's column. One has the name that databases have had for it.
const char* ColumnOf(const char* field) {
  return std::strcmp(field, "num_virtual_tokens") == 0 ? "virtual_tokens" : field;
}

template <typename Record, typename Visit>
void VisitColumns(Record& record, const Visit& visit) {
  if constexpr (MaybeConst<Record, LearningJob>) {
    VisitOrder(record, visit);
    VisitProgress(record, visit);
    visit("is_cancelled", record.is_cancelled);
  } else {
    VisitFields(record, visit);
  }
}

template <typename Record>
std::string ColumnsOf() {
  std::string names;
  const Record record;
  VisitColumns(record, [&names](const char* field, const auto&) {
    names += (names.empty() ? "" : ", ") + std::string(ColumnOf(field));
  });
  return names;
}

template <typename Record>
int NumColumns() {
  int count = 0;
  const Record record;
  VisitColumns(record, [&count](const char*, const auto&) { ++count; });
  return count;
}

// "?, ?, ?".
std::string Places(int count) {
  std::string places;
  for (int i = 0; i < count; ++i) places += i == 0 ? "?" : ", ?";
  return places;
}

template <typename Record>
Record RecordOf(SqliteStatement& row) {
  Record record;
  int column = 0;
  VisitColumns(record, [&](const char*, auto& value) { ReadColumn(row, column++, &value); });
  return record;
}

template <typename Record>
void BindAll(SqliteStatement& statement, const Record& record) {
  VisitColumns(record, [&](const char*, const auto& value) { BindColumn(statement, value); });
}

// "id TEXT UNIQUE NOT NULL, tenant TEXT NOT NULL, ...".
template <typename Record>
std::string Definitions() {
  std::string all;
  const Record record;
  VisitColumns(record, [&all](const char* field, const auto& value) {
    all += (all.empty() ? "" : ", ") + std::string(ColumnOf(field)) + " " + TypeOf(value) +
           (std::strcmp(field, "id") == 0 ? " UNIQUE" : "") + " NOT NULL";
  });
  return all;
}

}  // namespace

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

const std::string& FileColumns() {
  static const std::string columns = ColumnsOf<LearningFile>();
  return columns;
}
const std::string& JobColumns() {
  static const std::string columns = ColumnsOf<LearningJob>();
  return columns;
}
const std::string& EventColumns() {
  static const std::string columns = ColumnsOf<JobEvent>();
  return columns;
}
const std::string& CheckpointColumns() {
  static const std::string columns = ColumnsOf<JobCheckpoint>();
  return columns;
}
int NumJobColumns() { return NumColumns<LearningJob>(); }

LearningFile FileOf(SqliteStatement& row) { return RecordOf<LearningFile>(row); }
LearningJob JobOf(SqliteStatement& row) { return RecordOf<LearningJob>(row); }
JobEvent EventOf(SqliteStatement& row) { return RecordOf<JobEvent>(row); }
JobCheckpoint CheckpointOf(SqliteStatement& row) { return RecordOf<JobCheckpoint>(row); }

Status InsertFile(SqliteDatabase& database, const LearningFile& file) {
  SqliteStatement insert(database, "INSERT INTO file (" + FileColumns() + ") VALUES (" +
                                       Places(NumColumns<LearningFile>()) + ")");
  BindAll(insert, file);
  return insert.Run();
}

Status InsertJob(SqliteDatabase& database, const LearningJob& job) {
  SqliteStatement insert(
      database, "INSERT INTO job (" + JobColumns() + ") VALUES (" + Places(NumJobColumns()) + ")");
  BindAll(insert, job);
  return insert.Run();
}

Status InsertEvent(SqliteDatabase& database, const std::string& job, const JobEvent& event) {
  SqliteStatement last(database, "SELECT COALESCE(MAX(number), 0) FROM event WHERE job = ?");
  if (!last.Bind(job).Next()) return last.status();
  JobEvent next = event;
  next.number = last.Integer(0) + 1;
  SqliteStatement insert(database, "INSERT INTO event (job, " + EventColumns() + ") VALUES (" +
                                       Places(NumColumns<JobEvent>() + 1) + ")");
  BindAll(insert.Bind(job), next);
  return insert.Run();
}

Status InsertCheckpoint(SqliteDatabase& database, const std::string& job,
                        const JobCheckpoint& checkpoint) {
  SqliteStatement insert(database, "INSERT OR REPLACE INTO checkpoint (job, " +
                                       CheckpointColumns() + ") VALUES (" +
                                       Places(NumColumns<JobCheckpoint>() + 1) + ")");
  BindAll(insert.Bind(job), checkpoint);
  return insert.Run();
}

Status UpdateJob(SqliteDatabase& database, const LearningJob& job) {
  std::string changes;
  VisitProgress(job, [&changes](const char* field, const auto&) {
    changes += (changes.empty() ? "" : ", ") + std::string(ColumnOf(field)) + " = ?";
  });
  SqliteStatement update(database, "UPDATE job SET " + changes + " WHERE id = ?");
  VisitProgress(job, [&](const char*, const auto& value) { BindColumn(update, value); });
  return update.Bind(job.id).Run();
}

}  // namespace graft
