// SqliteRegistry: one server's AdapterRegistry, which survives a restart, and what was found in the
// folders that the server read. Every change is one transaction in the write-ahead log: after a
// kill the file is as the last finished change left it. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "registry/adapter_registry.h"
#include "registry/sqlite_database.h"

namespace graft {

// The facts of a PEFT folder when it was read. They hold as long as its files have this stamp.
struct RegistryFolder {
  std::string path;
  std::string stamp;  // sizes and times of change
  std::string hash;
  std::string base_model;
  int32_t rank_max = 0;
  int64_t bytes = 0;
  int32_t num_virtual_tokens = 0;
  bool changes_nothing = false;
  std::string left_out = "";

  bool operator==(const RegistryFolder&) const = default;
};

class SqliteRegistry : public AdapterRegistry {
 public:
  // `path`: a file, or ":memory:" for a registry that is not stored. kDataLoss: the file is no
  // registry. kFailedPrecondition: it is of a later version. kNotFound: its folder does not exist.
  // A disk that is full or may not be written is no failure: the file's entries can be read,
  // changes are forgotten at the end, and unwritable() says why.
  static Result<std::unique_ptr<SqliteRegistry>> Open(const std::string& path);
  ~SqliteRegistry() override;

  // OK: changes are remembered.
  const Status& unwritable() const { return unwritable_; }

  Status Put(const AdapterInfo& entry, bool replace) override;
  Status Remove(const std::string& name) override;
  Result<std::vector<AdapterInfo>> List() const override;

  // Inserts the folder, or replaces the facts known of its path.
  Status RememberFolder(const RegistryFolder& folder);
  // Forgets the known ones of these paths, all or none.
  Status ForgetFolders(const std::vector<std::string>& paths);
  // Sorted by path.
  Result<std::vector<RegistryFolder>> ListFolders() const;

 private:
  explicit SqliteRegistry(std::unique_ptr<SqliteDatabase> database);
  static Result<std::unique_ptr<SqliteRegistry>> OpenForMemory(const std::string& path,
                                                               Status unwritable);
  Status Recall(const std::string& path);
  // These want mutex_ held.
  Status CheckName(const AdapterInfo& entry) const;
  Status Upsert(const AdapterInfo& entry);

  Status unwritable_;
  mutable std::mutex mutex_;
  std::unique_ptr<SqliteDatabase> database_;
};

// What a server has: the file, or one that is forgotten for "". The log and the gauge
// graft_registry_remembers tell whether changes will survive the process.
Result<std::unique_ptr<SqliteRegistry>> OpenRegistry(const std::string& path, Metrics& metrics);

}  // namespace graft
