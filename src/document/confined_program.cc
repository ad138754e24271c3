#include "document/confined_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/fault.h"
#include "document/confinement.h"

namespace graft {
namespace {

constexpr size_t kComplaintBytesMax = 300;
constexpr int kQuestionMs = 100;             // between questions whether the end is still wanted
constexpr int kEndMs = 5;                    // between looks for its end once its output is closed
constexpr int64_t kGraceNs = 5'000'000'000;  // after SIGKILL
constexpr int kCannotBegin = 126;
constexpr int kDescriptorsMax = 1 << 16;

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
  Status Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return SystemError(errno, "cannot make a pipe");
    read_end.Reset(ends[0]);
    write_end.Reset(ends[1]);
    return OkStatus();
  }
};

Result<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), X_OK) == 0) return name;
  } else {
    const char* const path = std::getenv("PATH");
    std::string_view folders = path == nullptr ? "/usr/bin:/bin" : path;
    while (!folders.empty()) {
      const size_t end = std::min(folders.find(':'), folders.size());
      const std::string file = std::string(folders.substr(0, end)) + "/" + name;
      if (end > 0 && access(file.c_str(), X_OK) == 0) return file;
      folders.remove_prefix(std::min(end + 1, folders.size()));
    }
  }
  return Status(StatusCode::kNotFound, "there is no program " + name);
}

// The input as a file without a name: its reader may stop reading without a signal here.
Status OpenInput(const std::string& input, Descriptor* file) {
  file->Reset(memfd_create("input", MFD_CLOEXEC));
  if (file->get() < 0) return SystemError(errno, "cannot make a file in memory");
  for (size_t given = 0; given < input.size();) {
    const ssize_t n = write(file->get(), input.data() + given, input.size() - given);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return SystemError(errno, "cannot write a file in memory");
    given += static_cast<size_t>(n);
  }
  if (lseek(file->get(), 0, SEEK_SET) != 0) return SystemError(errno, "cannot read from memory");
  return OkStatus();
}

// All that the child needs, made before there is one.
struct ChildOrder {
  int standard[3];  // its input, output and complaints
  int file_walls;
  const ProgramLimits* limits;
  const char* program;
  char* const* words;
  char* const* variables;
};

// A lower one of this process's own holds on.
void SetLimit(int which, int64_t value, int64_t beyond = 0) {
  rlimit limit = {};
  if (getrlimit(static_cast<__rlimit_resource_t>(which), &limit) != 0) _exit(kCannotBegin);
  limit.rlim_max = std::min(limit.rlim_max, static_cast<rlim_t>(value + beyond));
  limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(value));
  if (setrlimit(static_cast<__rlimit_resource_t>(which), &limit) != 0) _exit(kCannotBegin);
}

void CloseFrom(int first) {
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
  for (int fd = first; fd < kDescriptorsMax; ++fd) close(fd);  // an old system
}

// No handler of this process may run in the child, which shares its memory until exec. By system
// calls alone: the C library and sanitizers keep notes of handlers there.
void ResetSignals() {
  constexpr int kNumSignals = 64;
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    unsigned long mask[2];
  } usual = {};
  for (int one = 1; one <= kNumSignals; ++one) {
    syscall(SYS_rt_sigaction, one, &usual, nullptr, sizeof(uint64_t));
  }
  const uint64_t none = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(none));
}

// In the child, which shares this process's memory until exec: nothing is allocated or locked.
[[noreturn]] __attribute__((noinline)) void RunChild(const ChildOrder& order) {
  for (int fd = 0; fd < 3; ++fd) {
    if (dup2(order.standard[fd], fd) < 0) _exit(kCannotBegin);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it dies with the thread that waits for it
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  RaiseFileWalls(order.file_walls);
  CloseFrom(3);
  ResetSignals();
  SetLimit(RLIMIT_CPU, order.limits->cpu_seconds, 1);  // SIGXCPU, by which the limit is known
  SetLimit(RLIMIT_NOFILE, order.limits->files);
  SetLimit(RLIMIT_FSIZE, 0);  // pipes are no files
  SetLimit(RLIMIT_CORE, 0);
  SetLimit(RLIMIT_AS, order.limits->memory_bytes);
  ForbidCalls();
  execve(order.program, order.words, order.variables);
  _exit(kCannotBegin);
}

// Its standard descriptors must not lie where the child puts them before it has read them all.
Status MoveUp(Descriptor* descriptor) {
  if (descriptor->get() > 2) return OkStatus();
  const int moved = fcntl(descriptor->get(), F_DUPFD_CLOEXEC, 3);
  if (moved < 0) return SystemError(errno, "cannot start a program");
  descriptor->Reset(moved);
  return OkStatus();
}

// A child by vfork: fork would copy this process's page tables, which for a server that has weights
// in memory takes as long as several steps.
Result<pid_t> Start(const ChildOrder& order) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = vfork();      // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (child == 0) RunChild(order);  // NOLINT(clang-analyzer-unix.Vfork)
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) return SystemError(error, "cannot start a program");
  return child;
}

// The child, from its start to its end, which does not outlive this object.
class Run {
 public:
  Run(pid_t child, const ProgramLimits& limits, Pipe& out, Pipe& complaints,
      const std::function<bool()>& is_wanted)
      : child_(child), limits_(limits), out_(out), complaints_(complaints), is_wanted_(is_wanted) {}
  ~Run() { End(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  ProgramEnd Watch() {
    const int64_t end_ns = SteadyClock::Get().NowNs() + int64_t{limits_.seconds} * 1'000'000'000;
    const auto is_open = [this] {
      return out_.read_end.get() >= 0 || complaints_.read_end.get() >= 0;
    };
    while (is_open() || !HasEnded()) {
      if (SteadyClock::Get().NowNs() >= end_ns) return Stopped(ProgramEnd::Kind::kTooLong);
      if (is_wanted_ && !is_wanted_()) return Stopped(ProgramEnd::Kind::kUnwanted);
      std::array<pollfd, 2> ends = {
          {{out_.read_end.get(), POLLIN, 0}, {complaints_.read_end.get(), POLLIN, 0}}};
      if (poll(ends.data(), ends.size(), is_open() ? kQuestionMs : kEndMs) < 0) continue;
      if (ends[0].revents != 0) Take(out_.read_end, &end_.output, SIZE_MAX);
      if (ends[1].revents != 0) Take(complaints_.read_end, &end_.complaint, kComplaintBytesMax);
      if (static_cast<int64_t>(end_.output.size()) > limits_.output_bytes) {
        return Stopped(ProgramEnd::Kind::kTooMuch);
      }
    }
    const bool is_signal = WIFSIGNALED(status_);
    end_.code = is_signal ? WTERMSIG(status_) : WEXITSTATUS(status_);
    return Stopped(is_signal ? ProgramEnd::Kind::kSignal : ProgramEnd::Kind::kExited);
  }

 private:
  ProgramEnd Stopped(ProgramEnd::Kind kind) {
    End();
    end_.kind = kind;
    end_.complaint.resize(std::min(end_.complaint.find('\n'), end_.complaint.size()));
    return std::move(end_);
  }

  bool HasEnded() {
    if (child_ > 0 && waitpid(child_, &status_, WNOHANG) != 0) child_ = -1;
    return child_ < 0;
  }

  // A process that was killed ends at once, unless the system itself hangs: it is left alone then.
  void End() {
    if (child_ < 0) return;
    kill(child_, SIGKILL);
    const int64_t end_ns = SteadyClock::Get().NowNs() + kGraceNs;
    while (!HasEnded() && SteadyClock::Get().NowNs() < end_ns) poll(nullptr, 0, kEndMs);
    child_ = -1;
  }

  static void Take(Descriptor& end, std::string* into, size_t bytes_max) {
    char bytes[1 << 16];
    const ssize_t n = read(end.get(), bytes, sizeof(bytes));
    if (n == 0 || (n < 0 && errno != EINTR)) end.Close();
    if (n > 0) into->append(bytes, std::min(static_cast<size_t>(n), bytes_max - into->size()));
  }

  pid_t child_;
  const ProgramLimits& limits_;
  Pipe& out_;
  Pipe& complaints_;
  const std::function<bool()>& is_wanted_;
  int status_ = 0;
  ProgramEnd end_;
};

}  // namespace

Result<ProgramEnd> RunConfined(const std::vector<std::string>& words, const std::string& input,
                               const ProgramLimits& limits,
                               const std::function<bool()>& is_wanted) {
  ASSIGN_OR_RETURN(const std::string program, FindProgram(words.at(0)));
  Descriptor in;
  Pipe out, complaints;
  RETURN_IF_ERROR(OpenInput(input, &in));
  RETURN_IF_ERROR(out.Open());
  RETURN_IF_ERROR(complaints.Open());
  for (Descriptor* one : {&in, &out.write_end, &complaints.write_end}) RETURN_IF_ERROR(MoveUp(one));
  const char* const path = std::getenv("PATH");
  std::string variables[] = {std::string("PATH=") + (path == nullptr ? "/usr/bin:/bin" : path),
                             "LANG=C.UTF-8"};
  char* const variable_pointers[] = {variables[0].data(), variables[1].data(), nullptr};
  std::vector<char*> word_pointers;
  for (const std::string& word : words) word_pointers.push_back(const_cast<char*>(word.c_str()));
  word_pointers.push_back(nullptr);
  const Descriptor file_walls(MakeFileWalls());
  ASSIGN_OR_RETURN(const pid_t child,
                   Start({.standard = {in.get(), out.write_end.get(), complaints.write_end.get()},
                          .file_walls = file_walls.get(),
                          .limits = &limits,
                          .program = program.c_str(),
                          .words = word_pointers.data(),
                          .variables = variable_pointers}));
  out.write_end.Close();
  complaints.write_end.Close();
  return Run(child, limits, out, complaints, is_wanted).Watch();
}

}  // namespace graft
