// Waist 1, beside AdapterCatalog: adapters that are not listed, and may be had from elsewhere by
// their names. What is found becomes the catalog's. Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "request/adapter_catalog.h"

namespace graft {

// A folder that was brought for a load.
struct BroughtAdapter {
  std::string path;
  std::string revision;  // a commit, or a version of a prefix
};

class AdapterSources {
 public:
  virtual ~AdapterSources() = default;

  // Whether such a name may be looked up at all. Asks no source and takes no time.
  virtual bool MayHave(const std::string& name) const = 0;

  // Whether `tenant` may now use an adapter that was listed because a request asked for its name
  // (AdapterInfo::is_looked_up). False: it has to be looked up for this tenant first. Takes no
  // time.
  virtual bool Permits(const AdapterInfo& adapter, const std::string& tenant) const = 0;

  // A request of `tenant` uses the adapter of this name: it is not the one that was used least
  // lately, and what is known of it is renewed once it is old. Takes no time.
  virtual void Used(const std::string& name, const std::string& tenant) = 0;

  // Looks the name up for `tenant`, and has the catalog list it. `done` is called once, on another
  // thread or before this returns: OK, listed and permitted; kNotFound: there is no such adapter,
  // or not for this tenant; else why it is not served. It must only post work elsewhere.
  virtual void Want(const std::string& name, const std::string& tenant,
                    std::function<void(const Status&)> done) = 0;

  // Brings the name's files for a load by an admin, which lists them under a name of its own: by
  // the operator's token, for all that may use that name. `done` as above.
  virtual void Bring(const std::string& name,
                     std::function<void(const Result<BroughtAdapter>&)> done) = 0;
};

}  // namespace graft
