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
  std::string tenant;     // whose it is; "" for everybody's
  int64_t loaded_at = 0;  // Unix seconds

  bool operator==(const RegistryEntry&) const = default;
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

 private:
  struct Database;
  explicit AdapterRegistry(std::unique_ptr<Database> database);

  mutable std::mutex mutex_;
  std::unique_ptr<Database> database_;
};

}  // namespace graft
