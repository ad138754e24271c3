// A file beside `path` that takes its place once it is whole: at no moment does `path` hold a part
// of it. What is not finished is removed. One thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace graft {

class NewFile {
 public:
  // `mode`: its rights, but for those that the umask takes. The file beside it is `path` with
  // `ending`, which several that may write at once need each of its own.
  explicit NewFile(const std::string& path, mode_t mode = 0644, const std::string& ending = ".new");
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // After a failure, which Finish tells, nothing is written.
  void Write(const void* data, size_t bytes);
  const Status& status() const { return status_; }
  // The bytes are on the disk when it returns. SystemError's codes.
  Status Finish();

 private:
  void Fail(const std::string& what);

  const std::string path_;
  const std::string new_path_;
  int descriptor_ = -1;
  bool is_done_ = false;
  Status status_;
};

// Copies a file of any size block by block, as NewFile writes it. kFailedPrecondition if the file
// becomes longer or shorter meanwhile.
Status CopyWholeFile(const std::string& from, const std::string& to, mode_t mode);
// Such a file of these bytes.
Status WriteWholeFile(const std::string& path, std::string_view bytes, mode_t mode = 0644,
                      const std::string& ending = ".new");

}  // namespace graft
