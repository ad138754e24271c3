// AdapterRegistry: the table of adapters that survives a restart, in SQLite. A name is unique; a
// hash may stand under several names. Every change is one transaction in the write-ahead log: after
// a kill the table is as the last finished change left it. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"

namespace graft {

struct RegistryEntry {
  std::string name;
  std::string hash;
  std::string path;        // the PEFT folder
  std::string base_model;  // as the adapter names it, may be empty
  int32_t rank_max = 0;
  int64_t bytes = 0;
  std::string tenant;     // whose load it was; "": nobody noted
  int64_t loaded_at = 0;  // Unix seconds

  bool operator==(const RegistryEntry&) const = default;
};

// What was found in a PEFT folder when it was read, good as long as its files have this stamp.
struct RegistryFolder {
  std::string path;
  std::string stamp;  // sizes and times of change
  std::string hash;
  std::string base_model;
  int32_t rank_max = 0;
  int64_t bytes = 0;

  bool operator==(const RegistryFolder&) const = default;
};

class AdapterRegistry {
 public:
  // `path`, or ":memory:" for one that is forgotten. kDataLoss for a file that is no registry,
  // kFailedPrecondition for one of a later version.
  static Result<std::unique_ptr<AdapterRegistry>> Open(const std::string& path);
  ~AdapterRegistry();

  // Inserts, or replaces the entry of that name.
  Status Upsert(const RegistryEntry& entry);
  // kNotFound.
  Status Remove(const std::string& name);
  // Sorted by name.
  Result<std::vector<RegistryEntry>> List() const;

  // Inserts, or replaces what was known of that path.
  Status RememberFolder(const RegistryFolder& folder);
  // Those of these paths that it knows, all or none.
  Status ForgetFolders(const std::vector<std::string>& paths);
  // Sorted by path.
  Result<std::vector<RegistryFolder>> ListFolders() const;

 private:
  struct Database;
  explicit AdapterRegistry(std::unique_ptr<Database> database);

  mutable std::mutex mutex_;
  std::unique_ptr<Database> database_;
};

}  // namespace graft
