// A regular file that is open for reading, and what tells whether it has been written since. Any
// thread; reads of several threads may run at once.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace graft {

// Two looks that find the same have found the same bytes, unless the file was written between them
// within one tick of the clock that its times are taken from: see IsSettled.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970-01-01
  int64_t changed_ns = 0;   // the same; no program can set it

  bool operator==(const FileIdentity&) const = default;
};

// Whether both times lie more than `settle_ns` before `now_ns`: what is written from then on gets
// other times. A file that was written later, or has times in the future, may be written
// again without a trace.
bool IsSettled(const FileIdentity& identity, int64_t now_ns, int64_t settle_ns);

// By the clock that files' times are taken from, since 1970-01-01.
int64_t FileTimeNow();

class OpenedFile {
 public:
  // Takes the descriptor, which is below 0 where nothing could be opened: `path` is for messages.
  // Errors as ReadFile's.
  static Result<OpenedFile> Of(int descriptor, std::string path, int64_t bytes_max);
  OpenedFile(OpenedFile&& other) noexcept;
  OpenedFile& operator=(OpenedFile&& other) noexcept;
  ~OpenedFile();

  const std::string& path() const { return path_; }
  int64_t bytes() const { return identity_.bytes; }
  // As it was when it was opened, and as it is.
  const FileIdentity& identity() const { return identity_; }
  Result<FileIdentity> Look() const;
  // kUnavailable where the file has become shorter; kCancelled, after one call of the system at
  // most, where the thread's work is unwanted.
  Status ReadAt(int64_t begin, int64_t bytes, char* to) const;
  // All of it; kResourceExhausted where the memory has no room.
  Result<std::string> ReadAll() const;

 private:
  OpenedFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

  int descriptor_ = -1;
  std::string path_;
  FileIdentity identity_;
};

}  // namespace graft
