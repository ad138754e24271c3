#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/fault.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    const int error_number = errno;  // which the caller may look at next
    if (fd_ >= 0) close(fd_);
    errno = error_number;
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Without O_NONBLOCK opening a pipe's end or a device could wait for ever.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

Status OpenError(int error_number, const std::string& path) {
  return SystemError(error_number, "cannot open " + path);
}

// The descriptor is the file's from now on.
Result<OpenedFile> Take(FileDescriptor descriptor, const std::string& path, int64_t bytes_max) {
  return OpenedFile::Of(descriptor.Release(), path, bytes_max);
}

// As it was given, where the working folder is gone.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute.string();
}

bool IsInside(const fs::path& root, const fs::path& path) {
  const fs::path relative = path.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

// Name by name from the root's descriptor, following no link: whatever is renamed or linked
// meanwhile, what comes out was reached without leaving the root. (openat2 with RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS does the same in one call, but not on every kernel and in every container.)
FileDescriptor OpenBeneath(const std::string& root, const fs::path& relative) {
  FileDescriptor at(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (auto part = relative.begin(); at.ok() && part != relative.end(); ++part) {
    const bool is_last = std::next(part) == relative.end();
    const int flags = is_last ? kReadFlags : O_PATH | O_DIRECTORY | O_CLOEXEC;
    at = FileDescriptor(openat(at.get(), part->c_str(), flags | O_NOFOLLOW));
  }
  return at;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, int64_t bytes_max) {
  const WatchedWork wanted(nullptr);
  return FileJail().Read(path, bytes_max);
}

bool FileExists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Result<FileStamp> StampFile(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return SystemError(errno, "cannot look at " + path);
  return FileStamp{
      .bytes = status.st_size,
      .modified_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

Result<std::string> ResolveInside(const std::string& root, const std::string& path) {
  std::error_code error;
  const fs::path base = fs::canonical(root, error);
  if (error) return SystemError(error.value(), "folder " + Absolute(root) + " cannot be used");
  // Weakly first: an escape is refused the same whether its target exists or not.
  const fs::path joined = fs::path(path).is_absolute() ? fs::path(path) : base / path;
  const fs::path resolved = fs::weakly_canonical(joined, error);
  if (error) return SystemError(error.value(), "path '" + path + "' cannot be resolved");
  if (!IsInside(base, resolved)) {
    return PermissionDeniedError("path '" + path + "' is outside " + base.string());
  }
  if (!fs::exists(resolved, error)) {
    if (error) return SystemError(error.value(), "path '" + path + "' cannot be looked at");
    return NotFoundError("path '" + path + "' does not exist under " + base.string());
  }
  return resolved.string();
}

Result<std::string> FileJail::Resolve(const std::string& path) const {
  CHECK(!roots_.empty()) << "a jail without roots resolves nothing";
  Result<std::string> first = ResolveInside(roots_.front(), path);
  if (first.ok() || first.status().code() != StatusCode::kPermissionDenied) return first;
  // A link in the first root may lead into another one.
  const std::string joined = Absolute(fs::path(roots_.front()) / path);
  for (size_t i = 1; i < roots_.size(); ++i) {
    Result<std::string> inside = ResolveInside(roots_[i], joined);
    if (inside.ok()) return inside;
  }
  return first;
}

bool FileJail::LeadsOut(const std::string& path) const {
  return !roots_.empty() && Resolve(path).status().code() == StatusCode::kPermissionDenied;
}

Result<std::string> FileJail::Read(const std::string& path, int64_t bytes_max) const {
  ASSIGN_OR_RETURN(const OpenedFile file, Open(path, bytes_max));
  return file.ReadAll();
}

Result<OpenedFile> FileJail::Open(const std::string& path, int64_t bytes_max) const {
  if (roots_.empty()) {
    FileDescriptor descriptor(open(path.c_str(), kReadFlags));
    if (!descriptor.ok()) return OpenError(errno, path);
    return Take(std::move(descriptor), path, bytes_max);
  }
  // A link that is put in place of a name after it was resolved is not followed: another look.
  constexpr int kLooksMax = 3;
  for (int look = 0; look < kLooksMax; ++look) {
    ASSIGN_OR_RETURN(const std::string inside, Resolve(path));
    for (const std::string& root : roots_) {
      std::error_code error;
      const fs::path base = fs::canonical(root, error);
      if (error || !IsInside(base, inside)) continue;
      FileDescriptor file = OpenBeneath(base, fs::path(inside).lexically_relative(base));
      if (file.ok()) return Take(std::move(file), path, bytes_max);
      if (errno == ELOOP || errno == ENOTDIR || errno == ENOENT) break;
      return OpenError(errno, path);
    }
  }
  return UnavailableError(path + " is moved about while it is opened");
}

}  // namespace graft
