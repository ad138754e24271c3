// Small files read whole, and paths kept inside folders.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/opened_file.h"
#include "base/status.h"

namespace graft {

// The bytes of a regular file. kNotFound: no such file. kPermissionDenied: this user may not read
// it. kInvalidArgument: it is not a regular file, or larger than `bytes_max`. A transient fault
// (base/fault.h): memory, descriptors or the disk fail, or the file is cut meanwhile. It is read to
// its end even if the thread's work is unwanted (base/unwanted_work.h): what is learned from such
// files is kept, and others must not find half of it.
Result<std::string> ReadFile(const std::string& path, int64_t bytes_max = int64_t{1} << 30);

bool FileExists(const std::string& path);

// What tells that a file has been written since, without reading it.
struct FileStamp {
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970-01-01
};
// kNotFound where there is no file; other codes where that cannot be told.
Result<FileStamp> StampFile(const std::string& path);

// `path` (absolute, or relative to `root`) with every link resolved, if it lies inside `root`; else
// kPermissionDenied. kNotFound if nothing is there. Messages name `root` with its links resolved,
// and `path` as it was given.
Result<std::string> ResolveInside(const std::string& root, const std::string& path);

// FileJail: the folders that reads must stay inside, wherever links in them lead. A writer inside a
// root can change links at any moment, so Read checks the file that it has opened, and not what the
// name meant before. Without roots, reads go anywhere. Immutable; any thread.
class FileJail {
 public:
  FileJail() = default;
  // A root that is not there holds nothing until it is.
  explicit FileJail(std::vector<std::string> roots) : roots_(std::move(roots)) {}

  // ResolveInside of whichever root holds it; relative paths begin at the first root, which the
  // error names, too. There must be a root.
  Result<std::string> Resolve(const std::string& path) const;

  // Whether links lead from `path` to a place outside. What is not there leads nowhere.
  bool LeadsOut(const std::string& path) const;

  // ReadFile, and its first half; kPermissionDenied if what would be opened lies outside. Unwanted
  // work ends here with kCancelled.
  Result<std::string> Read(const std::string& path, int64_t bytes_max) const;
  Result<OpenedFile> Open(const std::string& path, int64_t bytes_max) const;

 private:
  std::vector<std::string> roots_;
};

}  // namespace graft
