// Small files read whole, and paths kept inside a folder.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace graft {

// The file's bytes; kNotFound where it cannot be opened, kResourceExhausted past `bytes_max`.
Result<std::string> ReadFile(const std::string& path, int64_t bytes_max = int64_t{1} << 30);

bool FileExists(const std::string& path);

// `path` (absolute, or relative to `root`) with every link resolved, if it lies inside `root`;
// otherwise kPermissionDenied. kNotFound where nothing is there.
Result<std::string> ResolveInside(const std::string& root, const std::string& path);

}  // namespace graft
