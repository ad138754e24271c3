#include "document/confined_program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace graft {
namespace confined_program_test {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = ProgramEnd::Kind;

ProgramEnd RunScript(const std::string& script, const ProgramLimits& limits = {},
                     const std::string& input = "", const std::function<bool()>& wanted = nullptr) {
  Result<ProgramEnd> end = RunConfined({"sh", "-c", script}, input, limits, wanted);
  CHECK(end.ok()) << end.status().message();
  return std::move(*end);
}

struct Folder {
  Folder() { CHECK(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path = (std::filesystem::temp_directory_path() / "graft_confined_XXXXXX").string();
};

TEST(RunConfinedTest, GivesInputAndTakesOutput) {
  const std::string large(3 << 20, 'x');  // more than pipes hold
  const ProgramEnd end = RunScript("cat; echo 'one\ntwo' >&2; exit 7", {}, large);
  EXPECT_EQ(end.kind, Kind::kExited);
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(end.output, large);
  EXPECT_EQ(end.complaint, "one");
  EXPECT_EQ(RunScript("exec 0<&-; echo enough", {}, large).output, "enough\n");
  EXPECT_EQ(RunConfined({"no-such-program"}, "", {}).status().code(), StatusCode::kNotFound);
}

TEST(RunConfinedTest, HasNothingOfThisProcess) {
  setenv("GRAFT_ADMIN_KEY", "topsecret", 1);
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);  // not close-on-exec, as Asio's
  ASSERT_GE(fcntl(sockets[0], F_DUPFD, 20), 20);
  const std::string variables = RunScript("env").output;
  EXPECT_THAT(variables, Not(HasSubstr("topsecret")));
  EXPECT_THAT(variables, HasSubstr("PATH="));
  EXPECT_THAT(variables, HasSubstr("LANG=C.UTF-8"));
  const std::string open = RunScript(
                               "for i in 0 1 2 3 4 5 6 7 8 9; do (: <&$i) 2>/dev/null && "
                               "echo $i; done; (: <&20) 2>/dev/null && echo 20")
                               .output;
  EXPECT_EQ(open, "0\n1\n2\n");
  unsetenv("GRAFT_ADMIN_KEY");
  for (const int end : sockets) close(end);
}

bool HasLandlock() {
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 1;
}

// The walls that the system may lack are looked for first.
TEST(RunConfinedTest, LooksIntoNoOtherProcess) {
  if (!HasLandlock()) GTEST_SKIP() << "this system has no Landlock";
  const ProgramEnd end =
      RunScript("cat /proc/" + std::to_string(getpid()) + "/environ && echo read");
  EXPECT_EQ(end.output, "");
  EXPECT_EQ(RunScript("cat /etc/passwd >/dev/null && echo read").output, "read\n");
}

TEST(RunConfinedTest, MakesNoSocket) {
  if (RunConfined({"python3", "-c", ""}, "", {}).status().code() == StatusCode::kNotFound) {
    GTEST_SKIP() << "this machine has no python3";
  }
  const ProgramEnd end =
      *RunConfined({"python3", "-c", "import socket; socket.socket(); print('made')"}, "", {});
  EXPECT_EQ(end.output, "");
}

TEST(RunConfinedTest, SignalsNoOtherProcess) {
  const std::string pid = std::to_string(getpid());
  EXPECT_EQ(RunScript("kill -0 " + pid + " && echo signalled").output, "");
  EXPECT_EQ(RunScript("kill -TERM $$").kind, Kind::kSignal);
}

TEST(RunConfinedTest, ChangesNoFile) {
  const Folder folder;
  const std::string file = folder.path + "/kept";
  std::ofstream(file) << "kept";
  const std::string with_names = "f=" + file + "; d=" + folder.path + "; ";
  for (const char* const change : {"rm $f", "mv $f $d/other", "ln $f $d/other", "chmod 700 $f",
                                   "touch $f", "mkdir $d/made", "ln -s $f $d/link"}) {
    EXPECT_NE(RunScript(with_names + change).code, 0) << change;
  }
  if (HasLandlock()) {
    EXPECT_NE(RunScript(with_names + ": >$f").code, 0);
    EXPECT_NE(RunScript(with_names + ": >$d/made").code, 0);
  }
  std::ifstream kept(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), "kept");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1);
  // What a script around a program does may go on.
  EXPECT_EQ(RunScript(with_names + "echo x 2>/dev/null >/dev/null && cat $f").output, "kept");
}

// What no shell has words for, and what programs do that mean no harm.
TEST(RunConfinedTest, ForbidsByArgumentsAndLetsThreadsRun) {
  if (RunConfined({"python3", "-c", ""}, "", {}).status().code() == StatusCode::kNotFound) {
    GTEST_SKIP() << "this machine has no python3";
  }
  const Folder folder;
  const std::string file = folder.path + "/kept";
  std::ofstream(file) << "kept";
  const std::string script = R"(
import os, resource, sys, threading
def attempt(name, call):
    try:
        call()
        print(name)
    except OSError as error:
        assert error.errno == 1, (name, error)
file = sys.argv[1]
attempt('emptied', lambda: os.open(file, os.O_RDONLY | os.O_TRUNC))
attempt('cut', lambda: os.truncate(file, 0))
attempt('limited', lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE))
attempt('read', lambda: os.open(file, os.O_RDONLY))
attempt('knows its limits', lambda: resource.prlimit(0, resource.RLIMIT_CORE))
thread = threading.Thread(target=print, args=('threads',))
thread.start()
thread.join()
)";
  const ProgramEnd end = *RunConfined({"python3", "-c", script, file}, "", {});
  EXPECT_EQ(end.output, "read\nknows its limits\nthreads\n") << end.complaint;
  EXPECT_EQ(std::filesystem::file_size(file), 4U);
}

TEST(RunConfinedTest, EndsAtEachLimit) {
  ProgramLimits limits;
  limits.output_bytes = 1 << 20;
  EXPECT_EQ(RunScript("yes", limits).kind, Kind::kTooMuch);
  limits.seconds = 1;
  EXPECT_EQ(RunScript("exec sleep 100", limits).kind, Kind::kTooLong);
  // Its output is closed, and it does not end.
  EXPECT_EQ(RunScript("exec >/dev/null 2>&1 1>&- 2>&-; exec sleep 100", limits).kind,
            Kind::kTooLong);
  limits.seconds = 60;
  limits.cpu_seconds = 1;
  const ProgramEnd busy = RunScript("while :; do :; done", limits);
  EXPECT_EQ(busy.kind, Kind::kSignal);
  EXPECT_EQ(busy.code, SIGXCPU);
  EXPECT_NE(RunScript("echo x > /tmp/graft_confined_file").code, 0)
      << "a file that holds something";
  EXPECT_THAT(RunScript("ulimit -v; ulimit -n; ulimit -c").output, HasSubstr("1048576\n32\n0\n"));
  unlink("/tmp/graft_confined_file");
}

TEST(RunConfinedTest, EndsWhereItIsNotWanted) {
  int num_asked = 0;
  const ProgramEnd end =
      RunScript("exec sleep 100", {}, "", [&num_asked] { return ++num_asked < 3; });
  EXPECT_EQ(end.kind, Kind::kUnwanted);
  EXPECT_EQ(num_asked, 3);
}

TEST(RunConfinedTest, SeveralRunAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::string> outputs(8);
  for (size_t i = 0; i < outputs.size(); ++i) {
    threads.emplace_back([&, i] {
      outputs[i] = RunScript("cat", {}, std::string(1 << 18, static_cast<char>('a' + i))).output;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outputs[i], std::string(1 << 18, static_cast<char>('a' + i)));
  }
}

}  // namespace confined_program_test
}  // namespace graft
