// Waist 1, beside AdapterCatalog: adapters that are not listed, and may be had from elsewhere by
// their names. What is found becomes the catalog's. Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace graft {

class AdapterSources {
 public:
  virtual ~AdapterSources() = default;

  // Whether such a name may be looked up at all. Asks no source and takes no time.
  virtual bool MayHave(const std::string& name) const = 0;

  // Whether `tenant` may use a listed adapter of this name now. False: it has to be looked up for
  // this tenant first. True of all names that came from no source. Takes no time; counts as a use.
  virtual bool Permits(const std::string& name, const std::string& tenant) = 0;

  // Looks the name up for `tenant`, and has the catalog list it. `done` is called once, on another
  // thread or before this returns: OK, listed and permitted; kNotFound: there is no such adapter,
  // or not for this tenant; else why it is not served. It must only post work elsewhere.
  virtual void Want(const std::string& name, const std::string& tenant,
                    std::function<void(const Status&)> done) = 0;
};

}  // namespace graft
