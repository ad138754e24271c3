#include "base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <vector>

#include "base/fault.h"
#include "base/file.h"

namespace graft {

NewFile::NewFile(const std::string& path, mode_t mode, const std::string& ending)
    : path_(path), new_path_(path + ending) {
  descriptor_ = open(new_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (descriptor_ < 0) Fail("cannot write " + new_path_);
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!is_done_) unlink(new_path_.c_str());
}

void NewFile::Write(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (status_.ok() && bytes > 0) {
    const ssize_t n = write(descriptor_, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Fail("cannot write " + new_path_);
    at += n;
    bytes -= static_cast<size_t>(n);
  }
}

Status NewFile::Finish() {
  if (status_.ok() && fsync(descriptor_) != 0) Fail("cannot write " + new_path_);
  if (status_.ok() && rename(new_path_.c_str(), path_.c_str()) != 0) {
    Fail("cannot rename " + new_path_);
  }
  is_done_ = status_.ok();
  return status_;
}

void NewFile::Fail(const std::string& what) { status_ = SystemError(errno, what); }

Status CopyWholeFile(const std::string& from, const std::string& to, mode_t mode) {
  NewFile file(to, mode);
  ASSIGN_OR_RETURN(const FileStamp stamp, StampFile(from));
  std::ifstream in(from, std::ios::binary);
  if (!in) return SystemError(errno, "cannot read " + from);
  std::vector<char> block(size_t{1} << 20);
  int64_t copied = 0;
  while (file.status().ok() && in) {
    in.read(block.data(), std::ssize(block));
    if (in.bad()) return SystemError(errno, "cannot read " + from);
    file.Write(block.data(), static_cast<size_t>(in.gcount()));
    copied += in.gcount();
  }
  if (file.status().ok() && copied != stamp.bytes) {
    return FailedPreconditionError(from + " changed while it was copied; try again");
  }
  return file.Finish();
}

Status WriteWholeFile(const std::string& path, std::string_view bytes, mode_t mode,
                      const std::string& ending) {
  NewFile file(path, mode, ending);
  file.Write(bytes.data(), bytes.size());
  return file.Finish();
}

}  // namespace graft
