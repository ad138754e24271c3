#include "cli/folder_hash.h"

#include <cstdint>
#include <limits>

#include "model/adapter_folder.h"

namespace graft {

Result<std::string> HashOfFolder(const std::string& folder) {
  ASSIGN_OR_RETURN(const AdapterContent read,
                   ReadAdapter(folder, std::numeric_limits<int64_t>::max()));
  return ContentHash(read);
}

}  // namespace graft
