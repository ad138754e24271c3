#include "document/confinement.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

namespace graft {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif
// x86-64 has a second set of numbers, from here on.
constexpr uint32_t kOtherNumbers = 0x40000000;

constexpr uint32_t kForbidden[] = {SYS_socket,
                                   SYS_socketpair,
                                   SYS_connect,
                                   SYS_accept,
                                   SYS_accept4,
                                   SYS_bind,
                                   SYS_listen,
                                   SYS_sendto,
                                   SYS_sendmsg,
                                   SYS_sendmmsg,
                                   SYS_ptrace,
                                   SYS_bpf,
                                   SYS_process_vm_readv,
                                   SYS_process_vm_writev,
                                   SYS_io_uring_setup,
                                   SYS_unshare,
                                   SYS_setns,
                                   SYS_pidfd_getfd,
                                   SYS_keyctl,
                                   SYS_add_key,
                                   SYS_mount,
                                   SYS_userfaultfd,
                                   SYS_perf_event_open};

constexpr sock_filter Statement(uint16_t code, uint32_t value) { return {code, 0, 0, value}; }
constexpr sock_filter Jump(uint16_t test, uint32_t value, uint8_t if_true, uint8_t if_false) {
  return {static_cast<uint16_t>(BPF_JMP | test | BPF_K), if_true, if_false, value};
}

constexpr size_t kNumForbidden = std::size(kForbidden);
using Filter = std::array<sock_filter, kNumForbidden + 6>;

// Is it this architecture, is it one of its common calls, is it none of the forbidden ones?
constexpr Filter MakeFilter() {
  Filter filter = {};
  constexpr auto kLast = static_cast<uint8_t>(filter.size() - 1);
  const auto to_last = [](size_t from) { return static_cast<uint8_t>(kLast - from - 1); };
  filter[0] = Statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  filter[1] = Jump(BPF_JEQ, kArchitecture, 0, to_last(1));
  filter[2] = Statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  filter[3] = Jump(BPF_JGE, kOtherNumbers, to_last(3), 0);
  for (size_t i = 0; i < kNumForbidden; ++i) {
    filter[4 + i] = Jump(BPF_JEQ, kForbidden[i], to_last(4 + i), 0);
  }
  filter[kLast - 1] = Statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[kLast] = Statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  return filter;
}
constexpr Filter kFilter = MakeFilter();

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;

void Allow(int rules, const std::string& path) {
  const int opened = open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (opened < 0) return;
  struct stat facts = {};
  const bool is_folder = fstat(opened, &facts) == 0 && S_ISDIR(facts.st_mode);
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = is_folder ? kRead : uint64_t{LANDLOCK_ACCESS_FS_READ_FILE};
  rule.parent_fd = opened;
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(opened);
}

}  // namespace

int OpenFilesButProc() {
  landlock_ruleset_attr attributes = {};
  attributes.handled_access_fs = kRead;
  const auto rules =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0));
  if (rules < 0) return -1;
  fcntl(rules, F_SETFD, FD_CLOEXEC);
  DIR* const root = opendir("/");
  while (const dirent* const entry = root == nullptr ? nullptr : readdir(root)) {
    const std::string name = entry->d_name;
    if (name != "proc" && name != "." && name != "..") Allow(rules, "/" + name);
  }
  if (root != nullptr) closedir(root);
  return rules;
}

void ReadNoProc(int files_but_proc) {
  if (files_but_proc >= 0) syscall(SYS_landlock_restrict_self, files_but_proc, 0);
}

void ForbidSockets() {
  if (kArchitecture == 0) return;
  const sock_fprog program = {static_cast<unsigned short>(kFilter.size()),
                              const_cast<sock_filter*>(kFilter.data())};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

}  // namespace graft
