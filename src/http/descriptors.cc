#include "http/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>

namespace graft {
namespace {

// Some hard limits are "as many as there are numbers"; a process with more open has other troubles.
constexpr rlim_t kDescriptorsMax = 1 << 20;

}  // namespace

int64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  rlimit raised = limit;
  raised.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kDescriptorsMax));
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<int64_t>(std::min(limit.rlim_cur, kDescriptorsMax));
}

int64_t CountDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int64_t count = -1;  // the folder's own
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] == '.' ? 0 : 1;
  closedir(folder);
  return count;
}

Result<int32_t> ConnectionsThatFit(int32_t wanted, int64_t limit, int64_t num_open) {
  const int64_t room = limit - num_open - kDescriptorsReserved;
  if (room < 1) {
    return ResourceExhaustedError("this process may open " + std::to_string(limit) +
                                  " files and sockets, which leaves " +
                                  "none for connections; raise the limit to " +
                                  std::to_string(num_open + kDescriptorsReserved + wanted) +
                                  " or more (ulimit -n, LimitNOFILE= of systemd)");
  }
  return static_cast<int32_t>(std::min<int64_t>(wanted, room));
}

}  // namespace graft
