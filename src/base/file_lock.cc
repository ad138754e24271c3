#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/fault.h"

namespace graft {
namespace {

constexpr std::chrono::milliseconds kLockPoll(5);

}  // namespace

std::string LockScope() {
  constexpr size_t kDigits = 8;
  std::string scope(kDigits, '\0');
  std::ifstream id("/proc/sys/kernel/random/boot_id");
  if (!id.read(scope.data(), kDigits)) return "";
  const bool is_hex = scope.find_first_not_of("0123456789abcdef") == scope.npos;
  return is_hex ? scope : "";
}

Result<FileLock> FileLock::Take(const std::string& path, int64_t wait_ns, mode_t mode) {
  const int descriptor =
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
  if (descriptor < 0) return SystemError(errno, "cannot open " + path);
  FileLock lock(descriptor);
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) {
      return UnimplementedError("the file system of " + path + " has no locks");
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return SystemError(errno, "cannot lock " + path);
    if (SteadyClock::Get().NowNs() - begin_ns >= wait_ns) {
      return UnavailableError("another program has locked " + path);
    }
    std::this_thread::sleep_for(kLockPoll);
  }
  return lock;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace graft
