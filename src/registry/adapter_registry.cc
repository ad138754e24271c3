#include "registry/adapter_registry.h"

namespace graft {

Status NameIsTaken(const std::string& name, const std::string& hash) {
  constexpr size_t kDigitsShown = 12;
  return AlreadyExistsError("the name '" + name + "' has other content (" +
                            hash.substr(0, kDigitsShown) +
                            "): ask to replace it, or choose another name");
}

}  // namespace graft
