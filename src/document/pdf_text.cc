#include "document/pdf_text.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "base/fault.h"

extern char** environ;

namespace graft {
namespace {

constexpr int kNotFoundExit = 127;
constexpr size_t kComplaintBytesMax = 300;

// The two ends of a pipe, closed when they are not needed any more.
struct Pipe {
  int read_end = -1;
  int write_end = -1;
  ~Pipe() {
    Close(read_end);
    Close(write_end);
  }
  static void Close(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
  Status Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return SystemError(errno, "cannot make a pipe");
    read_end = ends[0];
    write_end = ends[1];
    return OkStatus();
  }
};

void SetLimit(int which, rlim_t value) {
  const rlimit limit{value, value};
  if (setrlimit(static_cast<__rlimit_resource_t>(which), &limit) != 0) _exit(1);
}

// In the child, where only what is safe in a signal handler may be called.
[[noreturn]] void RunChild(const Pipe& in, const Pipe& out, const Pipe& complaints,
                           const PdfTextLimits& limits, char* const* argv) {
  if (dup2(in.read_end, 0) < 0 || dup2(out.write_end, 1) < 0 || dup2(complaints.write_end, 2) < 0) {
    _exit(1);
  }
  SetLimit(RLIMIT_AS, static_cast<rlim_t>(limits.memory_bytes));
  SetLimit(RLIMIT_CPU, static_cast<rlim_t>(limits.cpu_seconds));
  SetLimit(RLIMIT_NOFILE, static_cast<rlim_t>(limits.files));
  SetLimit(RLIMIT_FSIZE, 0);  // pipes are no files
  SetLimit(RLIMIT_CORE, 0);
  // It dies with its parent, and gains no rights.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  execvp(argv[0], argv);
  _exit(kNotFoundExit);
}

// What the child is given and says, until it closes its ends or a limit is met.
class Talk {
 public:
  Talk(const std::string& pdf, const PdfTextLimits& limits, Pipe& in, Pipe& out, Pipe& complaints)
      : pdf_(pdf), limits_(limits), in_(in), out_(out), complaints_(complaints) {}

  Status Run() {
    const int64_t end_ns = SteadyClock::Get().NowNs() + int64_t{limits_.seconds} * 1'000'000'000;
    while (out_.read_end >= 0 || complaints_.read_end >= 0) {
      const int64_t left_ms = (end_ns - SteadyClock::Get().NowNs()) / 1'000'000;
      if (left_ms <= 0) {
        return InvalidArgumentError("pdftotext had not read the PDF after " +
                                    std::to_string(limits_.seconds) + " s and was stopped");
      }
      std::array<pollfd, 3> ends = {{{in_.write_end, POLLOUT, 0},
                                     {out_.read_end, POLLIN, 0},
                                     {complaints_.read_end, POLLIN, 0}}};
      if (poll(ends.data(), ends.size(), static_cast<int>(left_ms)) < 0 && errno != EINTR) {
        return SystemError(errno, "cannot wait for pdftotext");
      }
      if (ends[0].revents != 0) Give();
      if (ends[1].revents != 0) Take(out_.read_end, &text_);
      if (ends[2].revents != 0) Take(complaints_.read_end, &complaint_);
      if (static_cast<int64_t>(text_.size()) > limits_.text_bytes) {
        return InvalidArgumentError("the PDF has more than " +
                                    std::to_string(limits_.text_bytes >> 20) + " MiB of text");
      }
    }
    return OkStatus();
  }

  std::string& text() { return text_; }
  // Its first line.
  std::string complaint() const { return complaint_.substr(0, complaint_.find('\n')); }

 private:
  void Give() {
    const ssize_t n = write(in_.write_end, pdf_.data() + given_, pdf_.size() - given_);
    if (n > 0) given_ += static_cast<size_t>(n);
    const bool failed = n < 0 && errno != EINTR && errno != EAGAIN;
    if (failed || given_ == pdf_.size()) Pipe::Close(in_.write_end);
  }

  void Take(int& end, std::string* into) {
    char bytes[1 << 16];
    const ssize_t n = read(end, bytes, sizeof(bytes));
    if (n == 0 || (n < 0 && errno != EINTR)) Pipe::Close(end);
    if (n <= 0) return;
    const size_t room = into == &complaint_ ? kComplaintBytesMax - complaint_.size() : SIZE_MAX;
    into->append(bytes, std::min(static_cast<size_t>(n), room));
  }

  const std::string& pdf_;
  const PdfTextLimits& limits_;
  Pipe& in_;
  Pipe& out_;
  Pipe& complaints_;
  size_t given_ = 0;
  std::string text_;
  std::string complaint_;
};

Status StatusOfEnd(int status, const PdfTextLimits& limits, const std::string& complaint) {
  if (WIFSIGNALED(status)) {
    const bool is_time = WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL;
    return InvalidArgumentError(is_time
                                    ? "pdftotext had not read the PDF after " +
                                          std::to_string(limits.cpu_seconds) + " s and was stopped"
                                    : "pdftotext crashed over the PDF");
  }
  if (WEXITSTATUS(status) == 0) return OkStatus();
  if (WEXITSTATUS(status) == kNotFoundExit) {
    return FailedPreconditionError("a PDF is read by " + limits.program +
                                   ", which is not installed: apt install poppler-utils");
  }
  return InvalidArgumentError("pdftotext cannot read the PDF within its limits" +
                              (complaint.empty() ? "" : ": " + complaint));
}

// A write to a child that has ended must be an error here, not this process's end.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~WithoutSigpipe() { sigaction(SIGPIPE, &before_, nullptr); }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace

Result<std::string> PdfText(const std::string& pdf, const PdfTextLimits& limits) {
  Pipe in, out, complaints;
  for (Pipe* pipe : {&in, &out, &complaints}) RETURN_IF_ERROR(pipe->Open());
  std::string words[] = {limits.program, "-enc", "UTF-8", "-eol", "unix", "-q", "-", "-"};
  std::array<char*, std::size(words) + 1> argv = {};
  for (size_t i = 0; i < std::size(words); ++i) argv[i] = words[i].data();
  const WithoutSigpipe without_sigpipe;
  const pid_t child = fork();
  if (child < 0) return SystemError(errno, "cannot start pdftotext");
  if (child == 0) RunChild(in, out, complaints, limits, argv.data());
  Pipe::Close(in.read_end);
  Pipe::Close(out.write_end);
  Pipe::Close(complaints.write_end);
  fcntl(in.write_end, F_SETFL, O_NONBLOCK);
  Talk talk(pdf, limits, in, out, complaints);
  const Status talked = talk.Run();
  if (!talked.ok()) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  RETURN_IF_ERROR(talked);
  RETURN_IF_ERROR(StatusOfEnd(status, limits, talk.complaint()));
  return std::move(talk.text());
}

}  // namespace graft
