// AdapterRegistry: which adapters are served under which names, beyond the life of a process. A
// name is unique; a hash may stand under several names. Every change is made in one piece or not at
// all. One server's registry is a file (sqlite_registry.h), a cluster's is in etcd. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/adapter_text.h"
#include "base/status.h"

namespace graft {

struct RegistryEntry {
  std::string name;
  std::string hash;
  std::string path;        // the PEFT folder
  std::string base_model;  // as the adapter names it, may be empty
  int32_t rank_max = 0;
  int32_t num_virtual_tokens = 0;
  int64_t bytes = 0;
  std::string tenant;     // that loaded it; "": not noted
  int64_t loaded_at = 0;  // Unix seconds
  // The tenant that learned it and alone may use it; never set in one server's registry.
  std::optional<std::string> owner = std::nullopt;
  // What it says of texts; one server's registry leaves that to the folder.
  AdapterTextPtr text = nullptr;

  bool operator==(const RegistryEntry&) const = default;
};

class AdapterRegistry {
 public:
  virtual ~AdapterRegistry() = default;

  // Failures name no path; those that pass do so by their codes (base/fault.h).

  // Inserts the entry. Where its name has other content: kAlreadyExists, unless it is to `replace`
  // that. The same content under the same name is its last loader's from now on.
  virtual Status Put(const RegistryEntry& entry, bool replace) = 0;
  // kNotFound.
  virtual Status Remove(const std::string& name) = 0;
  // Sorted by name.
  virtual Result<std::vector<RegistryEntry>> List() const = 0;
};

// Why Put refuses: the name has the content `hash` already.
Status NameIsTaken(const std::string& name, const std::string& hash);

}  // namespace graft
