// Small files read whole, and paths kept inside a folder.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace graft {

// The bytes of a regular file; kNotFound where it cannot be opened, kResourceExhausted past
// `bytes_max` or what memory has room for.
Result<std::string> ReadFile(const std::string& path, int64_t bytes_max = int64_t{1} << 30);

bool FileExists(const std::string& path);

// What tells that a file has been written since, without reading it.
struct FileStamp {
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970-01-01
};
// kNotFound.
Result<FileStamp> StampFile(const std::string& path);

// `path` (absolute, or relative to `root`) with every link resolved, if it lies inside `root`;
// otherwise kPermissionDenied. kNotFound where nothing is there. Messages name `root` as it is with
// links resolved, `path` as it was given.
Result<std::string> ResolveInside(const std::string& root, const std::string& path);

}  // namespace graft
