#include "request/adapter_catalog.h"

#include <limits>

namespace graft {

std::vector<AdapterInfo> AdapterCatalog::List() const {
  return ListAfter("", std::numeric_limits<size_t>::max());
}

Status NoSuchAdapter(const AdapterCatalog& catalog, const std::string& name) {
  const std::string near = catalog.NamesNear(name, {});
  return NotFoundError("there is no adapter '" + name + "'" +
                       (near.empty() ? "" : "; did you mean " + near + "?"));
}

}  // namespace graft
