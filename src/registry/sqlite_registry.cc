#include "registry/sqlite_registry.h"

#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/log.h"

namespace graft {
namespace {

constexpr int64_t kSchemaVersion = 3;
constexpr char kWhat[] = "the adapter registry";

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
  ) STRICT;
  CREATE TABLE IF NOT EXISTS folder (
    path       TEXT PRIMARY KEY NOT NULL,
    stamp      TEXT NOT NULL,
    hash       TEXT NOT NULL,
    base_model TEXT NOT NULL,
    rank_max   INTEGER NOT NULL,
    bytes      INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS prompt (
    hash               TEXT PRIMARY KEY NOT NULL,
    num_virtual_tokens INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS idle (
    hash TEXT PRIMARY KEY NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS left_out (
    hash TEXT PRIMARY KEY NOT NULL,
    what TEXT NOT NULL
  ) STRICT)";
// For contents with virtual tokens; earlier versions' files have no such table.
constexpr char kUpsertPrompt[] =
    "INSERT OR REPLACE INTO prompt (hash, num_virtual_tokens) VALUES (?, ?)";
constexpr char kListPrompts[] = "SELECT hash, num_virtual_tokens FROM prompt";
// Contents that change nothing, in a table that earlier versions' files lack, too.
constexpr char kUpsertIdle[] = "INSERT OR REPLACE INTO idle (hash) VALUES (?)";
constexpr char kListIdle[] = "SELECT hash FROM idle";
// What is not served of contents; the same of its table.
constexpr char kUpsertLeftOut[] = "INSERT OR REPLACE INTO left_out (hash, what) VALUES (?, ?)";
constexpr char kForgetLeftOut[] = "DELETE FROM left_out WHERE hash = ?";
constexpr char kListLeftOut[] = "SELECT hash, what FROM left_out";
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

Status RememberPrompt(SqliteDatabase& database, const std::string& hash,
                      int32_t num_virtual_tokens) {
  if (num_virtual_tokens == 0) return OkStatus();
  return SqliteStatement(database, kUpsertPrompt)
      .Bind(hash)
      .Bind(int64_t{num_virtual_tokens})
      .Run();
}

// By content hash.
std::map<std::string, int32_t> ListPrompts(SqliteDatabase& database) {
  std::map<std::string, int32_t> prompts;
  SqliteStatement list(database, kListPrompts);
  while (list.Next()) prompts[list.Text(0)] = static_cast<int32_t>(list.Integer(1));
  return prompts;
}

std::set<std::string> ListIdle(SqliteDatabase& database) {
  std::set<std::string> idle;
  SqliteStatement list(database, kListIdle);
  while (list.Next()) idle.insert(list.Text(0));
  return idle;
}

// A server of other options leaves out other things of the same content.
Status RememberLeftOut(SqliteDatabase& database, const std::string& hash, const std::string& what) {
  if (what.empty()) return SqliteStatement(database, kForgetLeftOut).Bind(hash).Run();
  return SqliteStatement(database, kUpsertLeftOut).Bind(hash).Bind(what).Run();
}

// By content hash.
std::map<std::string, std::string> ListLeftOut(SqliteDatabase& database) {
  std::map<std::string, std::string> left_out;
  SqliteStatement list(database, kListLeftOut);
  while (list.Next()) left_out[list.Text(0)] = list.Text(1);
  return left_out;
}

int32_t TokensOf(const std::map<std::string, int32_t>& prompts, const std::string& hash) {
  const auto prompt = prompts.find(hash);
  return prompt == prompts.end() ? 0 : prompt->second;
}

}  // namespace

SqliteRegistry::SqliteRegistry(std::unique_ptr<SqliteDatabase> database)
    : database_(std::move(database)) {}
SqliteRegistry::~SqliteRegistry() = default;

Result<std::unique_ptr<SqliteRegistry>> SqliteRegistry::Open(const std::string& path) {
  auto database = std::make_unique<SqliteDatabase>(kWhat);
  const Status status = database->Open(path, kSchemaVersion, kCreate);
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
// write-ahead log need a file of their own, unless they are told that the file does not change.
Status SqliteRegistry::Recall(const std::string& path) {
  std::string escaped;
  for (const char c : std::filesystem::absolute(path).string()) {
    escaped += c == '?' || c == '#' || c == '%' ? fmt::format("%{:02X}", static_cast<int>(c))
                                                : std::string(1, c);
  }
  for (const char* mode : {"?mode=ro", "?mode=ro&immutable=1"}) {
    auto file = std::make_unique<SqliteDatabase>(kWhat);
    if (!file->OpenToRead("file:" + escaped + mode)) continue;
    const SqliteRegistry reader(std::move(file));
    const Result<std::vector<AdapterInfo>> entries = reader.List();
    const Result<std::vector<RegistryFolder>> folders = reader.ListFolders();
    if (!entries.ok() || !folders.ok()) continue;
    for (const AdapterInfo& entry : *entries) RETURN_IF_ERROR(Put(entry, true));
    for (const RegistryFolder& folder : *folders) RETURN_IF_ERROR(RememberFolder(folder));
    return OkStatus();
  }
  return OkStatus();  // an empty one, then
}

Status SqliteRegistry::Put(const AdapterInfo& entry, bool replace) {
  std::lock_guard lock(mutex_);
  if (replace) return Upsert(entry);
  // In one piece with what follows: another process may have the file open.
  SqliteTransaction transaction(*database_);
  RETURN_IF_ERROR(transaction.status());
  RETURN_IF_ERROR(CheckName(entry));
  RETURN_IF_ERROR(Upsert(entry));
  return transaction.Commit();
}

Status SqliteRegistry::CheckName(const AdapterInfo& entry) const {
  SqliteStatement look(*database_, kHashOf);
  if (!look.Bind(entry.name).Next()) return look.status();
  const std::string hash = look.Text(0);
  return hash == entry.hash ? OkStatus() : NameIsTaken(entry.name, hash);
}

Status SqliteRegistry::Upsert(const AdapterInfo& entry) {
  RETURN_IF_ERROR(RememberPrompt(*database_, entry.hash, entry.num_virtual_tokens));
  SqliteStatement upsert(*database_, kUpsert);
  return upsert.Bind(entry.name)
      .Bind(entry.hash)
      .Bind(entry.path)
      .Bind(entry.base_model)
      .Bind(int64_t{entry.rank_max})
      .Bind(entry.bytes)
      .Bind(entry.tenant)
      .Bind(entry.loaded_at)
      .Run();
}

Status SqliteRegistry::Remove(const std::string& name) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(SqliteStatement(*database_, kRemove).Bind(name).Run());
  if (database_->num_changed() == 0) {
    return NotFoundError("the registry has no adapter '" + name + "'");
  }
  return OkStatus();
}

Result<std::vector<AdapterInfo>> SqliteRegistry::List() const {
  std::lock_guard lock(mutex_);
  SqliteStatement list(*database_, kList);
  const std::map<std::string, int32_t> prompts = ListPrompts(*database_);
  std::vector<AdapterInfo> entries;
  while (list.Next()) {
    entries.push_back({.name = list.Text(0),
                       .hash = list.Text(1),
                       .path = list.Text(2),
                       .base_model = list.Text(3),
                       .rank_max = static_cast<int32_t>(list.Integer(4)),
                       .num_virtual_tokens = TokensOf(prompts, list.Text(1)),
                       .bytes = list.Integer(5),
                       .tenant = list.Text(6),
                       .loaded_at = list.Integer(7)});
  }
  RETURN_IF_ERROR(list.status());
  return entries;
}

Status SqliteRegistry::RememberFolder(const RegistryFolder& folder) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(RememberPrompt(*database_, folder.hash, folder.num_virtual_tokens));
  if (folder.changes_nothing) {
    RETURN_IF_ERROR(SqliteStatement(*database_, kUpsertIdle).Bind(folder.hash).Run());
  }
  RETURN_IF_ERROR(RememberLeftOut(*database_, folder.hash, folder.left_out));
  SqliteStatement upsert(*database_, kUpsertFolder);
  return upsert.Bind(folder.path)
      .Bind(folder.stamp)
      .Bind(folder.hash)
      .Bind(folder.base_model)
      .Bind(int64_t{folder.rank_max})
      .Bind(folder.bytes)
      .Run();
}

Status SqliteRegistry::ForgetFolders(const std::vector<std::string>& paths) {
  std::lock_guard lock(mutex_);
  SqliteTransaction transaction(*database_);
  RETURN_IF_ERROR(transaction.status());
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(SqliteStatement(*database_, kForgetFolder).Bind(path).Run());
  }
  return transaction.Commit();
}

Result<std::vector<RegistryFolder>> SqliteRegistry::ListFolders() const {
  std::lock_guard lock(mutex_);
  SqliteStatement list(*database_, kListFolders);
  const std::map<std::string, int32_t> prompts = ListPrompts(*database_);
  const std::set<std::string> idle = ListIdle(*database_);
  std::map<std::string, std::string> left_out = ListLeftOut(*database_);
  std::vector<RegistryFolder> folders;
  while (list.Next()) {
    folders.push_back({.path = list.Text(0),
                       .stamp = list.Text(1),
                       .hash = list.Text(2),
                       .base_model = list.Text(3),
                       .rank_max = static_cast<int32_t>(list.Integer(4)),
                       .bytes = list.Integer(5),
                       .num_virtual_tokens = TokensOf(prompts, list.Text(2)),
                       .changes_nothing = idle.contains(list.Text(2)),
                       .left_out = left_out[list.Text(2)]});
  }
  RETURN_IF_ERROR(list.status());
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
