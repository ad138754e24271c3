#include "registry/sqlite_database.h"

#include <sqlite3.h>

namespace graft {
namespace {

constexpr int kBusyWaitMs = 5000;

}  // namespace

SqliteDatabase::~SqliteDatabase() { sqlite3_close(handle_); }

Status SqliteDatabase::Error(const std::string& failure) const {
  const std::string message = what_ + ": " + failure + ": " + sqlite3_errmsg(handle_);
  switch (sqlite3_errcode(handle_)) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return DataLossError(message + "; move the file away to start with an empty one");
    case SQLITE_BUSY:
      return UnavailableError(message + "; another process holds it");
    case SQLITE_NOMEM:
      return ResourceExhaustedError(message);
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return UnavailableError(message + "; may this user write there, and has the disk room?");
    default:
      return InternalError(message);
  }
}

bool SqliteDatabase::CannotWrite() const {
  const int code = sqlite3_errcode(handle_);
  return code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_FULL ||
         code == SQLITE_IOERR;
}

Status SqliteDatabase::Execute(const char* sql, const char* failure) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return OkStatus();
  return Error(failure);
}

int64_t SqliteDatabase::num_changed() const { return sqlite3_changes(handle_); }

Status SqliteDatabase::Open(const std::string& path, int64_t version, std::string_view schema) {
  if (sqlite3_open(path.c_str(), &handle_) != SQLITE_OK) return Error("cannot open");
  sqlite3_busy_timeout(handle_, kBusyWaitMs);
  RETURN_IF_ERROR(Execute("PRAGMA journal_mode = WAL", "cannot set up"));
  int64_t found = 0;
  {
    SqliteStatement read(*this, "PRAGMA user_version");
    if (!read.Next()) return Error("cannot read");
    found = read.Integer(0);
  }
  if (found > version) {
    return FailedPreconditionError(what_ + " was written by a later version (" +
                                   std::to_string(found) + "); use that one, or another file");
  }
  const std::string tables(schema);
  RETURN_IF_ERROR(Execute(tables.c_str(), "cannot set up"));
  const std::string set_version = "PRAGMA user_version = " + std::to_string(version);
  return Execute(set_version.c_str(), "cannot set up");
}

bool SqliteDatabase::OpenToRead(const std::string& uri) {
  constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  return sqlite3_open_v2(uri.c_str(), &handle_, kFlags, nullptr) == SQLITE_OK;
}

SqliteStatement::SqliteStatement(SqliteDatabase& database, const char* sql) : database_(database) {
  if (sqlite3_prepare_v2(database.handle_, sql, -1, &statement_, nullptr) == SQLITE_OK) return;
  status_ = database.Error("cannot prepare");
}

SqliteStatement::~SqliteStatement() { sqlite3_finalize(statement_); }

SqliteStatement& SqliteStatement::Bind(std::string_view text) {
  sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
  return *this;
}

SqliteStatement& SqliteStatement::Bind(int64_t value) {
  sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}

SqliteStatement& SqliteStatement::Bind(double value) {
  sqlite3_bind_double(statement_, ++bound_, value);
  return *this;
}

SqliteStatement& SqliteStatement::BindBytes(std::string_view bytes) {
  sqlite3_bind_blob(statement_, ++bound_, bytes.data(), static_cast<int>(bytes.size()),
                    SQLITE_STATIC);
  return *this;
}

bool SqliteStatement::Next() {
  if (!status_.ok()) return false;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) {
    status_ =
        database_.Error(sqlite3_stmt_readonly(statement_) != 0 ? "cannot read" : "cannot write");
  }
  return false;
}

Status SqliteStatement::Run() {
  Next();
  return status_;
}

std::string SqliteStatement::Text(int column) {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  if (bytes == nullptr) return "";
  return std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

int64_t SqliteStatement::Integer(int column) { return sqlite3_column_int64(statement_, column); }
double SqliteStatement::Real(int column) { return sqlite3_column_double(statement_, column); }

SqliteTransaction::SqliteTransaction(SqliteDatabase& database) : database_(database) {
  status_ = database.Execute("BEGIN IMMEDIATE");
  is_open_ = status_.ok();
}

// If this fails, the first failure has undone the transaction already.
SqliteTransaction::~SqliteTransaction() {
  if (is_open_) (void)database_.Execute("ROLLBACK");
}

Status SqliteTransaction::Commit() {
  RETURN_IF_ERROR(database_.Execute("COMMIT"));
  is_open_ = false;
  return OkStatus();
}

}  // namespace graft
