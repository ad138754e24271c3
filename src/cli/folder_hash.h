// The content hash of an adapter's folder, for code that keeps adapters by it. Any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

Result<std::string> HashOfFolder(const std::string& folder);

}  // namespace graft
