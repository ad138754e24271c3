#include "registry/sqlite_registry.h"

#include <sqlite3.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/log.h"

namespace graft {
namespace {

constexpr int kSchemaVersion = 3;
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
// Of contents that have any; earlier versions' files have no such table.
constexpr char kCreatePrompts[] = R"(
  CREATE TABLE IF NOT EXISTS prompt (
    hash               TEXT PRIMARY KEY NOT NULL,
    num_virtual_tokens INTEGER NOT NULL
  ) STRICT)";
constexpr char kUpsertPrompt[] =
    "INSERT OR REPLACE INTO prompt (hash, num_virtual_tokens) VALUES (?, ?)";
constexpr char kListPrompts[] = "SELECT hash, num_virtual_tokens FROM prompt";
constexpr char kUpsertFolder[] =
    "INSERT OR REPLACE INTO folder (path, stamp, hash, base_model, rank_max, bytes) "
    "VALUES (?, ?, ?, ?, ?, ?)";
constexpr char kForgetFolder[] = "DELETE FROM folder WHERE path = ?";
constexpr char kListFolders[] =
    "SELECT path, stamp, hash, base_model, rank_max, bytes FROM folder ORDER BY path";
constexpr char kUpsert[] =
    "INSERT OR REPLACE INTO adapter (name, hash, path, base_model, rank_max, bytes, tenant, "
    "loaded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
constexpr char kHashOf[] = "SELECT hash FROM adapter WHERE name = ?";
constexpr char kRemove[] = "DELETE FROM adapter WHERE name = ?";
constexpr char kList[] =
    "SELECT name, hash, path, base_model, rank_max, bytes, tenant, loaded_at FROM adapter "
    "ORDER BY name";

}  // namespace

struct SqliteRegistry::Database {
  sqlite3* handle = nullptr;

  ~Database() { sqlite3_close(handle); }

  Status Error(const std::string& what) const {
    const std::string message = "the adapter registry: " + what + ": " + sqlite3_errmsg(handle);
    switch (sqlite3_errcode(handle)) {
      case SQLITE_CORRUPT:
      case SQLITE_NOTADB:
        return DataLossError(message + "; move the file away to start with an empty registry");
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
  // Whether the last failure is the disk's, or one of rights; other processes may be able to write.
  bool CannotWrite() const {
    const int code = sqlite3_errcode(handle);
    return code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_FULL ||
           code == SQLITE_IOERR;
  }

  Status Execute(const char* sql, const char* failure = "cannot set up") {
    if (sqlite3_exec(handle, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return OkStatus();
    return Error(failure);
  }
  Status SetUp(const std::string& path);
  Status ForgetFolder(const std::string& path);
  Status RememberPrompt(const std::string& hash, int32_t num_virtual_tokens);
  // By content hash.
  std::map<std::string, int32_t> ListPrompts() const;
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

Status SqliteRegistry::Database::ForgetFolder(const std::string& path) {
  Statement forget(handle, kForgetFolder);
  if (!forget.prepared()) return Error("cannot write");
  forget.Bind(path);
  return forget.Step() == SQLITE_DONE ? OkStatus() : Error("cannot write");
}

Status SqliteRegistry::Database::RememberPrompt(const std::string& hash,
                                                int32_t num_virtual_tokens) {
  if (num_virtual_tokens == 0) return OkStatus();
  Statement upsert(handle, kUpsertPrompt);
  if (!upsert.prepared()) return Error("cannot write");
  upsert.Bind(hash);
  upsert.Bind(int64_t{num_virtual_tokens});
  return upsert.Step() == SQLITE_DONE ? OkStatus() : Error("cannot write");
}

std::map<std::string, int32_t> SqliteRegistry::Database::ListPrompts() const {
  std::map<std::string, int32_t> prompts;
  Statement list(handle, kListPrompts);
  while (list.prepared() && list.Step() == SQLITE_ROW) {
    prompts[list.Text(0)] = static_cast<int32_t>(list.Integer(1));
  }
  return prompts;
}

SqliteRegistry::SqliteRegistry(std::unique_ptr<Database> database)
    : database_(std::move(database)) {}
SqliteRegistry::~SqliteRegistry() = default;

Status SqliteRegistry::Database::SetUp(const std::string& path) {
  if (sqlite3_open(path.c_str(), &handle) != SQLITE_OK) return Error("cannot open");
  sqlite3_busy_timeout(handle, kBusyWaitMs);
  RETURN_IF_ERROR(Execute("PRAGMA journal_mode = WAL"));
  int64_t version = 0;
  {
    Statement read(handle, "PRAGMA user_version");
    if (!read.prepared() || read.Step() != SQLITE_ROW) return Error("cannot read");
    version = read.Integer(0);
  }
  if (version > kSchemaVersion) {
    return FailedPreconditionError("the adapter registry was written by a later version (" +
                                   std::to_string(version) + "); use that one, or another file");
  }
  RETURN_IF_ERROR(Execute(kCreate));
  RETURN_IF_ERROR(Execute(kCreateFolders));
  RETURN_IF_ERROR(Execute(kCreatePrompts));
  const std::string set_version = "PRAGMA user_version = " + std::to_string(kSchemaVersion);
  return Execute(set_version.c_str());
}

Result<std::unique_ptr<SqliteRegistry>> SqliteRegistry::Open(const std::string& path) {
  auto database = std::make_unique<Database>();
  const Status status = database->SetUp(path);
  if (status.ok()) {
    return std::unique_ptr<SqliteRegistry>(new SqliteRegistry(std::move(database)));
  }
  const std::string folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !FileExists(folder)) {
    return NotFoundError(path + ": its folder does not exist");
  }
  if (!database->CannotWrite()) return status.WithContext(path);
  return OpenForMemory(path, status.WithContext(path));
}

Result<std::unique_ptr<SqliteRegistry>> SqliteRegistry::OpenForMemory(const std::string& path,
                                                                      Status unwritable) {
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteRegistry> registry, Open(":memory:"));
  RETURN_IF_ERROR(registry->Recall(path));
  registry->unwritable_ = std::move(unwritable);
  return registry;
}

// Takes over what the file at `path` has, if it can be read without writing beside it: readers of a
// write-ahead log need a file of their own, unless they are told that nobody writes.
Status SqliteRegistry::Recall(const std::string& path) {
  std::string escaped;
  for (const char c : std::filesystem::absolute(path).string()) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%%%02X", static_cast<unsigned char>(c));
    escaped += c == '?' || c == '#' || c == '%' ? std::string(digits) : std::string(1, c);
  }
  for (const char* mode : {"?mode=ro", "?mode=ro&immutable=1"}) {
    auto file = std::make_unique<Database>();
    const std::string uri = "file:" + escaped + mode;
    constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
    if (sqlite3_open_v2(uri.c_str(), &file->handle, kFlags, nullptr) != SQLITE_OK) continue;
    const SqliteRegistry reader(std::move(file));
    const Result<std::vector<RegistryEntry>> entries = reader.List();
    const Result<std::vector<RegistryFolder>> folders = reader.ListFolders();
    if (!entries.ok() || !folders.ok()) continue;
    for (const RegistryEntry& entry : *entries) RETURN_IF_ERROR(Put(entry, true));
    for (const RegistryFolder& folder : *folders) RETURN_IF_ERROR(RememberFolder(folder));
    return OkStatus();
  }
  return OkStatus();  // an empty one, then
}

Status SqliteRegistry::Put(const RegistryEntry& entry, bool replace) {
  std::lock_guard lock(mutex_);
  if (replace) return Upsert(entry);
  // In one piece with what follows: another process may have the file open.
  RETURN_IF_ERROR(database_->Execute("BEGIN IMMEDIATE", "cannot write"));
  Status status = CheckName(entry);
  if (status.ok()) status = Upsert(entry);
  if (status.ok()) status = database_->Execute("COMMIT", "cannot write");
  if (!status.ok()) sqlite3_exec(database_->handle, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

Status SqliteRegistry::CheckName(const RegistryEntry& entry) const {
  Statement look(database_->handle, kHashOf);
  if (!look.prepared()) return database_->Error("cannot read");
  look.Bind(entry.name);
  const int code = look.Step();
  if (code == SQLITE_DONE) return OkStatus();
  if (code != SQLITE_ROW) return database_->Error("cannot read");
  const std::string hash = look.Text(0);
  return hash == entry.hash ? OkStatus() : NameIsTaken(entry.name, hash);
}

Status SqliteRegistry::Upsert(const RegistryEntry& entry) {
  RETURN_IF_ERROR(database_->RememberPrompt(entry.hash, entry.num_virtual_tokens));
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

Status SqliteRegistry::Remove(const std::string& name) {
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

Result<std::vector<RegistryEntry>> SqliteRegistry::List() const {
  std::lock_guard lock(mutex_);
  Statement list(database_->handle, kList);
  if (!list.prepared()) return database_->Error("cannot read");
  const std::map<std::string, int32_t> prompts = database_->ListPrompts();
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
    const auto prompt = prompts.find(entry.hash);
    if (prompt != prompts.end()) entry.num_virtual_tokens = prompt->second;
    entries.push_back(std::move(entry));
  }
  if (code != SQLITE_DONE) return database_->Error("cannot read");
  return entries;
}

Status SqliteRegistry::RememberFolder(const RegistryFolder& folder) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(database_->RememberPrompt(folder.hash, folder.num_virtual_tokens));
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

Status SqliteRegistry::ForgetFolders(const std::vector<std::string>& paths) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(database_->Execute("BEGIN IMMEDIATE", "cannot write"));
  Status status;
  for (size_t i = 0; i < paths.size() && status.ok(); ++i) {
    status = database_->ForgetFolder(paths[i]);
  }
  if (status.ok()) status = database_->Execute("COMMIT", "cannot write");
  // If this fails, the first failure has undone the transaction already.
  if (!status.ok()) sqlite3_exec(database_->handle, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

Result<std::vector<RegistryFolder>> SqliteRegistry::ListFolders() const {
  std::lock_guard lock(mutex_);
  Statement list(database_->handle, kListFolders);
  if (!list.prepared()) return database_->Error("cannot read");
  const std::map<std::string, int32_t> prompts = database_->ListPrompts();
  std::vector<RegistryFolder> folders;
  int code;
  while ((code = list.Step()) == SQLITE_ROW) {
    folders.push_back({.path = list.Text(0),
                       .stamp = list.Text(1),
                       .hash = list.Text(2),
                       .base_model = list.Text(3),
                       .rank_max = static_cast<int32_t>(list.Integer(4)),
                       .bytes = list.Integer(5)});
    const auto prompt = prompts.find(folders.back().hash);
    if (prompt != prompts.end()) folders.back().num_virtual_tokens = prompt->second;
  }
  if (code != SQLITE_DONE) return database_->Error("cannot read");
  return folders;
}

Result<std::unique_ptr<SqliteRegistry>> OpenRegistry(const std::string& path, Metrics& metrics) {
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteRegistry> registry,
                   SqliteRegistry::Open(path.empty() ? ":memory:" : path));
  const Status& unwritable = registry->unwritable();
  if (!unwritable.ok()) {
    LOG_WARN("loads and unloads will be forgotten when the server ends: {}", unwritable.message());
  }
  metrics
      .Gauge("graft_registry_remembers",
             "1: loads and unloads survive a restart; 0: no --registry, or it cannot be written")
      .Set(!path.empty() && unwritable.ok() ? 1 : 0);
  return registry;
}

}  // namespace graft
