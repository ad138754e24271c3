#include "registry/adapter_registry.h"

#include <sqlite3.h>

#include <utility>

namespace graft {
namespace {

constexpr int kSchemaVersion = 2;
constexpr int kBusyWaitMs = 5000;

constexpr char kCreate[] = R"(
  CREATE TABLE IF NOT EXISTS adapter (
    name       TEXT PRIMARY KEY NOT NULL,
    hash       TEXT NOT NULL,
    path       TEXT NOT NULL,
    base_model TEXT NOT NULL,
    rank_max   INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    tenant     TEXT NOT NULL,
    loaded_at  INTEGER NOT NULL
  ) STRICT)";
constexpr char kCreateFolders[] = R"(
  CREATE TABLE IF NOT EXISTS folder (
    path       TEXT PRIMARY KEY NOT NULL,
    stamp      TEXT NOT NULL,
    hash       TEXT NOT NULL,
    base_model TEXT NOT NULL,
    rank_max   INTEGER NOT NULL,
    bytes      INTEGER NOT NULL
  ) STRICT)";
constexpr char kUpsertFolder[] =
    "INSERT OR REPLACE INTO folder (path, stamp, hash, base_model, rank_max, bytes) "
    "VALUES (?, ?, ?, ?, ?, ?)";
constexpr char kForgetFolder[] = "DELETE FROM folder WHERE path = ?";
constexpr char kListFolders[] =
    "SELECT path, stamp, hash, base_model, rank_max, bytes FROM folder ORDER BY path";
constexpr char kUpsert[] =
    "INSERT OR REPLACE INTO adapter (name, hash, path, base_model, rank_max, bytes, tenant, "
    "loaded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
constexpr char kRemove[] = "DELETE FROM adapter WHERE name = ?";
constexpr char kList[] =
    "SELECT name, hash, path, base_model, rank_max, bytes, tenant, loaded_at FROM adapter "
    "ORDER BY name";

}  // namespace

struct AdapterRegistry::Database {
  std::string path;
  sqlite3* handle = nullptr;

  ~Database() { sqlite3_close(handle); }

  Status Error(const std::string& what) const {
    const int code = sqlite3_errcode(handle);
    const std::string message =
        "adapter registry " + path + ": " + what + ": " + sqlite3_errmsg(handle);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
      return DataLossError(message + "; move the file away to start with an empty registry");
    }
    if (code == SQLITE_CANTOPEN) {
      return NotFoundError(message + "; does its folder exist, and may this user write there?");
    }
    if (code == SQLITE_BUSY) return UnavailableError(message + "; another process holds it");
    return InternalError(message);
  }

  Status Execute(const char* sql, const char* failure = "cannot set up") {
    if (sqlite3_exec(handle, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return OkStatus();
    return Error(failure);
  }
  Status ForgetFolder(const std::string& path);
};

namespace {

// A prepared statement for one use; parameters and columns are counted from left to right.
class Statement {
 public:
  Statement(sqlite3* handle, const char* sql) {
    prepared_ = sqlite3_prepare_v2(handle, sql, -1, &statement_, nullptr) == SQLITE_OK;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  bool prepared() const { return prepared_; }
  void Bind(const std::string& text) {
    sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                      SQLITE_TRANSIENT);
  }
  void Bind(int64_t value) { sqlite3_bind_int64(statement_, ++bound_, value); }
  int Step() { return sqlite3_step(statement_); }
  std::string Text(int column) {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr ? "" : std::string(text, sqlite3_column_bytes(statement_, column));
  }
  int64_t Integer(int column) { return sqlite3_column_int64(statement_, column); }

 private:
  sqlite3_stmt* statement_ = nullptr;
  bool prepared_ = false;
  int bound_ = 0;
};

}  // namespace

Status AdapterRegistry::Database::ForgetFolder(const std::string& path) {
  Statement forget(handle, kForgetFolder);
  if (!forget.prepared()) return Error("cannot write");
  forget.Bind(path);
  return forget.Step() == SQLITE_DONE ? OkStatus() : Error("cannot write");
}

AdapterRegistry::AdapterRegistry(std::unique_ptr<Database> database)
    : database_(std::move(database)) {}
AdapterRegistry::~AdapterRegistry() = default;

Result<std::unique_ptr<AdapterRegistry>> AdapterRegistry::Open(const std::string& path) {
  auto database = std::make_unique<Database>();
  database->path = path;
  if (sqlite3_open(path.c_str(), &database->handle) != SQLITE_OK) {
    return database->Error("cannot open");
  }
  sqlite3_busy_timeout(database->handle, kBusyWaitMs);
  RETURN_IF_ERROR(database->Execute("PRAGMA journal_mode = WAL"));
  int64_t version = 0;
  {
    Statement read(database->handle, "PRAGMA user_version");
    if (!read.prepared() || read.Step() != SQLITE_ROW) return database->Error("cannot read");
    version = read.Integer(0);
  }
  if (version > kSchemaVersion) {
    return FailedPreconditionError("adapter registry " + path +
                                   " was written by a later version (" + std::to_string(version) +
                                   "); use that one, or another file");
  }
  RETURN_IF_ERROR(database->Execute(kCreate));
  RETURN_IF_ERROR(database->Execute(kCreateFolders));
  const std::string set_version = "PRAGMA user_version = " + std::to_string(kSchemaVersion);
  RETURN_IF_ERROR(database->Execute(set_version.c_str()));
  return std::unique_ptr<AdapterRegistry>(new AdapterRegistry(std::move(database)));
}

Status AdapterRegistry::Upsert(const RegistryEntry& entry) {
  std::lock_guard lock(mutex_);
  Statement upsert(database_->handle, kUpsert);
  if (!upsert.prepared()) return database_->Error("cannot write");
  upsert.Bind(entry.name);
  upsert.Bind(entry.hash);
  upsert.Bind(entry.path);
  upsert.Bind(entry.base_model);
  upsert.Bind(int64_t{entry.rank_max});
  upsert.Bind(entry.bytes);
  upsert.Bind(entry.tenant);
  upsert.Bind(entry.loaded_at);
  if (upsert.Step() != SQLITE_DONE) return database_->Error("cannot write");
  return OkStatus();
}

Status AdapterRegistry::Remove(const std::string& name) {
  std::lock_guard lock(mutex_);
  Statement remove(database_->handle, kRemove);
  if (!remove.prepared()) return database_->Error("cannot write");
  remove.Bind(name);
  if (remove.Step() != SQLITE_DONE) return database_->Error("cannot write");
  if (sqlite3_changes(database_->handle) == 0) {
    return NotFoundError("the registry has no adapter '" + name + "'");
  }
  return OkStatus();
}

Result<std::vector<RegistryEntry>> AdapterRegistry::List() const {
  std::lock_guard lock(mutex_);
  Statement list(database_->handle, kList);
  if (!list.prepared()) return database_->Error("cannot read");
  std::vector<RegistryEntry> entries;
  int code;
  while ((code = list.Step()) == SQLITE_ROW) {
    RegistryEntry entry;
    entry.name = list.Text(0);
    entry.hash = list.Text(1);
    entry.path = list.Text(2);
    entry.base_model = list.Text(3);
    entry.rank_max = static_cast<int32_t>(list.Integer(4));
    entry.bytes = list.Integer(5);
    entry.tenant = list.Text(6);
    entry.loaded_at = list.Integer(7);
    entries.push_back(std::move(entry));
  }
  if (code != SQLITE_DONE) return database_->Error("cannot read");
  return entries;
}

Status AdapterRegistry::RememberFolder(const RegistryFolder& folder) {
  std::lock_guard lock(mutex_);
  Statement upsert(database_->handle, kUpsertFolder);
  if (!upsert.prepared()) return database_->Error("cannot write");
  upsert.Bind(folder.path);
  upsert.Bind(folder.stamp);
  upsert.Bind(folder.hash);
  upsert.Bind(folder.base_model);
  upsert.Bind(int64_t{folder.rank_max});
  upsert.Bind(folder.bytes);
  if (upsert.Step() != SQLITE_DONE) return database_->Error("cannot write");
  return OkStatus();
}

Status AdapterRegistry::ForgetFolders(const std::vector<std::string>& paths) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(database_->Execute("BEGIN IMMEDIATE", "cannot write"));
  Status status;
  for (size_t i = 0; i < paths.size() && status.ok(); ++i) {
    status = database_->ForgetFolder(paths[i]);
  }
  if (status.ok()) status = database_->Execute("COMMIT", "cannot write");
  // Of no further interest where this fails: then the first failure has undone it already.
  if (!status.ok()) sqlite3_exec(database_->handle, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

Result<std::vector<RegistryFolder>> AdapterRegistry::ListFolders() const {
  std::lock_guard lock(mutex_);
  Statement list(database_->handle, kListFolders);
  if (!list.prepared()) return database_->Error("cannot read");
  std::vector<RegistryFolder> folders;
  int code;
  while ((code = list.Step()) == SQLITE_ROW) {
    folders.push_back({.path = list.Text(0),
                       .stamp = list.Text(1),
                       .hash = list.Text(2),
                       .base_model = list.Text(3),
                       .rank_max = static_cast<int32_t>(list.Integer(4)),
                       .bytes = list.Integer(5)});
  }
  if (code != SQLITE_DONE) return database_->Error("cannot read");
  return folders;
}

}  // namespace graft
