#include "tensor/host_memory.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

#include "base/out_of_memory.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
// What a claim leaves for all that claims nothing.
constexpr int64_t kSpareBytes = int64_t{64} << 20;

std::atomic<int64_t> claimed_bytes = 0;
std::atomic<int64_t> available_max = kUnlimited;

// A cgroup's files and the lines of memory.stat that count what is given back when it is needed.
struct CgroupNames {
  const char* limit;
  const char* usage;
  const char* inactive_files;
  const char* active_files;
};
constexpr CgroupNames kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file", "total_active_file"};
constexpr CgroupNames kVersion2 = {"memory.max", "memory.current", "inactive_file", "active_file"};

// The number in a file; `otherwise` where there is none ("max", or no such file).
int64_t ReadNumber(const fs::path& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

// The number behind `name` in a file of such lines; 0 where there is none.
int64_t ReadLine(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word >> value && word == name) return value;
  }
  return 0;
}

int64_t LeftIn(const fs::path& cgroup, const CgroupNames& names) {
  const int64_t limit = ReadNumber(cgroup / names.limit, kUnlimited);
  if (limit == kUnlimited) return kUnlimited;
  const fs::path stat = cgroup / "memory.stat";
  const int64_t usage = ReadNumber(cgroup / names.usage, 0);
  const int64_t files = ReadLine(stat, names.inactive_files) + ReadLine(stat, names.active_files);
  return std::max<int64_t>(0, limit - std::max<int64_t>(0, usage - files));
}

// The bytes left in a cgroup and all cgroups around it. In a container `path` may be the host's,
// which it does not see: then its own is at `mount`.
int64_t LeftInAll(const fs::path& mount, const std::string& path, const CgroupNames& names) {
  int64_t left = LeftIn(mount, names);
  fs::path cgroup = mount;
  for (const fs::path& name : fs::path(path).relative_path()) {
    if (name == "..") break;
    cgroup /= name;
    left = std::min(left, LeftIn(cgroup, names));
  }
  return left;
}

// Without /proc, as in a bare chroot, the kernel still says how much is free; caches of files do
// not count.
int64_t FreeBytes() {
  struct sysinfo info = {};
  return sysinfo(&info) == 0 ? int64_t{info.mem_unit} * static_cast<int64_t>(info.freeram) : 0;
}

}  // namespace

int64_t AvailableHostBytes(const std::string& root) {
  const fs::path files = root.empty() ? "/" : root;
  int64_t available = ReadLine(files / "proc/meminfo", "MemAvailable:") * 1024;
  if (available == 0) available = FreeBytes();
  const fs::path mount = files / "sys/fs/cgroup";
  std::ifstream cgroups(files / "proc/self/cgroup");
  std::string line;
  while (std::getline(cgroups, line)) {  // number:controllers:path
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) available = std::min(available, LeftInAll(mount, path, kVersion2));
    if (controllers == "memory") {
      available = std::min(available, LeftInAll(mount / "memory", path, kVersion1));
    }
  }
  return std::min<int64_t>(available, available_max);
}

HostClaim::HostClaim(int64_t bytes) : bytes_(bytes) {
  const int64_t claimed = claimed_bytes.fetch_add(bytes) + bytes;
  if (claimed + kSpareBytes <= AvailableHostBytes()) return;
  claimed_bytes -= bytes;
  ThrowOutOfMemory("the host has no " + std::to_string(bytes) + " bytes to spare");
}

HostClaim::~HostClaim() { claimed_bytes -= bytes_; }

AvailableLimit::AvailableLimit(int64_t bytes) { available_max = bytes; }
AvailableLimit::~AvailableLimit() { available_max = kUnlimited; }

int64_t TotalHostBytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

}  // namespace graft
