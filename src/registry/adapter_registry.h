// AdapterRegistry: which adapters are served under which names, stored beyond the life of a
// process. A name is unique; a hash may have several names. Every change is made in one piece or
// not at all. A registry does not store whether an adapter changes nothing. One server's registry
// (sqlite_registry.h, a file) leaves texts to the folder and has no owners. A cluster's, in etcd,
// stores both. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "request/adapter_catalog.h"

namespace graft {

class AdapterRegistry {
 public:
  virtual ~AdapterRegistry() = default;

  // Failures name no path; those that pass do so by their codes (base/fault.h).

  // Inserts the entry. Where its name has other content: kAlreadyExists, unless it is to `replace`
  // that. The same content under the same name is its last loader's from now on.
  virtual Status Put(const AdapterInfo& entry, bool replace) = 0;
  // kNotFound.
  virtual Status Remove(const std::string& name) = 0;
  // Sorted by name.
  virtual Result<std::vector<AdapterInfo>> List() const = 0;
};

// Why Put refuses: the name has the content `hash` already.
inline Status NameIsTaken(const std::string& name, const std::string& hash) {
  constexpr size_t kDigitsShown = 12;
  return AlreadyExistsError("the name '" + name + "' has other content (" +
                            hash.substr(0, kDigitsShown) +
                            "): ask to replace it, or choose another name");
}

}  // namespace graft
