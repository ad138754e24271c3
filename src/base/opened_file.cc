#include "base/opened_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <new>
#include <utility>

#include "base/fault.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

// Slow storage has to answer no more than one call before unwanted work ends.
constexpr int64_t kReadCallBytes = int64_t{1} << 20;

int64_t NanosecondsOf(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

FileIdentity IdentityOf(const struct stat& status) {
  return {.device = static_cast<uint64_t>(status.st_dev),
          .inode = static_cast<uint64_t>(status.st_ino),
          .bytes = status.st_size,
          .modified_ns = NanosecondsOf(status.st_mtim),
          .changed_ns = NanosecondsOf(status.st_ctim)};
}

}  // namespace

bool IsSettled(const FileIdentity& identity, int64_t now_ns, int64_t settle_ns) {
  const int64_t last_ns = now_ns - settle_ns;
  return identity.modified_ns < last_ns && identity.changed_ns < last_ns;
}

int64_t FileTimeNow() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return NanosecondsOf(now);
}

Result<OpenedFile> OpenedFile::Of(int descriptor, std::string path, int64_t bytes_max) {
  OpenedFile file(descriptor, std::move(path));
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return SystemError(errno, "cannot look at " + file.path_);
  if (S_ISDIR(status.st_mode)) {
    return InvalidArgumentError(file.path_ + " is a folder, a file was expected");
  }
  if (!S_ISREG(status.st_mode)) {
    return InvalidArgumentError(file.path_ + " is a pipe or a device, a file was expected");
  }
  if (status.st_size > bytes_max) {
    return InvalidArgumentError(file.path_ + " has " + std::to_string(status.st_size) +
                                " bytes, the limit is " + std::to_string(bytes_max));
  }
  file.identity_ = IdentityOf(status);
  return file;
}

OpenedFile::OpenedFile(OpenedFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      identity_(other.identity_) {}

OpenedFile& OpenedFile::operator=(OpenedFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  return *this;
}

OpenedFile::~OpenedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<FileIdentity> OpenedFile::Look() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) return SystemError(errno, "cannot look at " + path_);
  return IdentityOf(status);
}

Status OpenedFile::ReadAt(int64_t begin, int64_t bytes, char* to) const {
  while (bytes > 0) {
    if (WorkIsUnwanted()) return UnwantedWork();
    const auto asked = static_cast<size_t>(std::min(bytes, kReadCallBytes));
    const ssize_t count = pread(descriptor_, to, asked, begin);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "cannot read " + path_);
    if (count == 0) return UnavailableError(path_ + " became shorter while it was read");
    to += count;
    begin += count;
    bytes -= count;
  }
  return OkStatus();
}

Result<std::string> OpenedFile::ReadAll() const {
  std::string text;
  try {
    text.resize(static_cast<size_t>(bytes()));
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError(path_ + " has " + std::to_string(bytes()) +
                                  " bytes, which the memory has no room for at the moment");
  }
  RETURN_IF_ERROR(ReadAt(0, bytes(), text.data()));
  return text;
}

}  // namespace graft
