// FileLock: one at a time among the processes of a machine, and among threads, has the lock of a
// file, which holds nothing else. The system lets go of it when its process ends, however it ends;
// the file stays. Where several machines share a file system, it depends on that whether they see
// each other's locks. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"

namespace graft {

// Eight hexadecimal digits that all processes have in common which see each other's locks on any
// file system: those of one running kernel. Processes of other machines have others. "": unknown.
std::string LockScope();

class FileLock {
 public:
  // Makes the file at `path` where there is none, and follows no link. Asks again for `wait_ns` at
  // most while another one has the lock: kUnavailable. kUnimplemented: the file system has no
  // locks. Other errors as SystemError's. `mode`: the rights of a file that is made.
  static Result<FileLock> Take(const std::string& path, int64_t wait_ns, mode_t mode = 0600);
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace graft
