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

// Newer than some systems' headers.
constexpr uint32_t kFchmodat2 = 452, kSetxattrat = 463, kRemovexattrat = 466;

// Sockets, other processes, and changes to files, which Landlock does not know in all versions.
constexpr uint32_t kForbidden[] = {
    SYS_socket,
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
    SYS_pidfd_send_signal,
    SYS_keyctl,
    SYS_add_key,
    SYS_mount,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_truncate,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    kFchmodat2,
    kSetxattrat,
    kRemovexattrat,
#ifdef SYS_renameat
    SYS_renameat,
#endif
#if defined(__x86_64__)
    SYS_creat,
    SYS_unlink,
    SYS_rmdir,
    SYS_rename,
    SYS_link,
    SYS_symlink,
    SYS_mkdir,
    SYS_mknod,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
};

// Calls that are forbidden by one of their numbers: where `bits` of it are `value`, or where they
// are anything else.
struct ForbiddenArgument {
  uint32_t call;
  uint32_t argument;
  uint32_t bits;
  uint32_t value;
  bool is_forbidden;  // with that value, or without
};
constexpr ForbiddenArgument kForbiddenArguments[] = {
    // Empties what it opens only to read it, which Landlock lets pass in its first versions.
    {SYS_openat, 2, O_ACCMODE | O_TRUNC, O_TRUNC, true},
#if defined(__x86_64__)
    {SYS_open, 1, O_ACCMODE | O_TRUNC, O_TRUNC, true},
#endif
    // Limits of another process.
    {SYS_prlimit64, 0, ~uint32_t{0}, 0, false},
};

// Their first number says which process is signalled: a program may abort.
constexpr uint32_t kSignals[] = {SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo,
                                 SYS_rt_tgsigqueueinfo};

constexpr sock_filter Statement(uint16_t code, uint32_t value) { return {code, 0, 0, value}; }
constexpr sock_filter Jump(uint16_t test, uint32_t value, uint8_t if_true, uint8_t if_false) {
  return {static_cast<uint16_t>(BPF_JMP | test | BPF_K), if_true, if_false, value};
}

constexpr size_t kStatementsOfArgument = 4;
using Filter = std::array<sock_filter, 8 + std::size(kForbidden) +
                                           kStatementsOfArgument*(std::size(kSignals) +
                                                                  std::size(kForbiddenArguments))>;
constexpr size_t kForbid = std::tuple_size_v<Filter> - 1;
constexpr size_t kUnknown = kForbid - 1;
constexpr size_t kAllow = kForbid - 2;
static_assert(kForbid < 256, "jumps are of one byte");

constexpr uint8_t From(size_t from, size_t to) { return static_cast<uint8_t>(to - from - 1); }

// Behind a look at the call's number.
constexpr void AddArgument(const ForbiddenArgument& one, size_t at, Filter& filter) {
  filter[at] = Jump(BPF_JEQ, one.call, 0, From(at, at + kStatementsOfArgument));
  filter[at + 1] = Statement(BPF_LD | BPF_W | BPF_ABS,
                             offsetof(seccomp_data, args) + sizeof(uint64_t) * one.argument);
  filter[at + 2] = Statement(BPF_ALU | BPF_AND | BPF_K, one.bits);
  filter[at + 3] = Jump(BPF_JEQ, one.value, From(at + 3, one.is_forbidden ? kForbid : kAllow),
                        From(at + 3, one.is_forbidden ? kAllow : kForbid));
}

// Is it this architecture, is it one of its common calls, is it none of the forbidden ones, and is
// it not forbidden by an argument? openat2 is answered as not known, since its flags cannot be seen
// here: a program then takes an older call.
constexpr Filter MakeFilter(uint32_t own_pid) {
  Filter filter = {};
  filter[0] = Statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  filter[1] = Jump(BPF_JEQ, kArchitecture, 0, From(1, kForbid));
  filter[2] = Statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  filter[3] = Jump(BPF_JGE, kOtherNumbers, From(3, kForbid), 0);
  filter[4] = Jump(BPF_JEQ, SYS_openat2, From(4, kUnknown), 0);
  size_t at = 5;
  for (const uint32_t call : kForbidden) {
    filter[at] = Jump(BPF_JEQ, call, From(at, kForbid), 0);
    ++at;
  }
  for (const uint32_t call : kSignals) {
    AddArgument({call, 0, ~uint32_t{0}, own_pid, false}, at, filter);
    at += kStatementsOfArgument;
  }
  for (const ForbiddenArgument& one : kForbiddenArguments) {
    AddArgument(one, at, filter);
    at += kStatementsOfArgument;
  }
  filter[kAllow] = Statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[kUnknown] = Statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
  filter[kForbid] = Statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  return filter;
}

constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kWriteFile = LANDLOCK_ACCESS_FS_WRITE_FILE;
constexpr uint64_t kMakeFile = LANDLOCK_ACCESS_FS_MAKE_REG;  // which an open does first
constexpr uint64_t kReadDir = LANDLOCK_ACCESS_FS_READ_DIR;

void Allow(int rules, const std::string& path, uint64_t of_files) {
  const int opened = open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (opened < 0) return;
  struct stat facts = {};
  const bool is_folder = fstat(opened, &facts) == 0 && S_ISDIR(facts.st_mode);
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = is_folder ? of_files | kReadDir : of_files;
  rule.parent_fd = opened;
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(opened);
}

}  // namespace

int MakeFileWalls() {
  DIR* const root = opendir("/");
  if (root == nullptr) return -1;
  landlock_ruleset_attr attributes = {};
  attributes.handled_access_fs = kReadFile | kReadDir | kWriteFile | kMakeFile;
  const auto rules =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0));
  if (rules >= 0) fcntl(rules, F_SETFD, FD_CLOEXEC);
  while (const dirent* const entry = rules < 0 ? nullptr : readdir(root)) {
    const std::string name = entry->d_name;
    if (name == "proc" || name == "." || name == "..") continue;
    Allow(rules, "/" + name, kReadFile);
  }
  if (rules >= 0) Allow(rules, "/dev/null", kReadFile | kWriteFile);  // scripts write there
  closedir(root);
  return rules;
}

void RaiseFileWalls(int walls) {
  if (walls >= 0) syscall(SYS_landlock_restrict_self, walls, 0);
}

void ForbidCalls() {
  if (kArchitecture == 0) return;
  Filter filter = MakeFilter(static_cast<uint32_t>(getpid()));
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

}  // namespace graft
