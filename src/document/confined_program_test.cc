#include "document/confined_program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
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

// The walls that the system may lack are looked for first.
TEST(RunConfinedTest, LooksIntoNoOtherProcess) {
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1) {
    GTEST_SKIP() << "this system has no Landlock";
  }
  const ProgramEnd end =
      RunScript("cat /proc/" + std::to_string(getpid()) + "/environ && echo read");
  EXPECT_EQ(end.output, "");
  EXPECT_EQ(RunScript("cat /etc/hostname >/dev/null && echo read").output, "read\n");
}

TEST(RunConfinedTest, MakesNoSocket) {
  if (RunConfined({"python3", "-c", ""}, "", {}).status().code() == StatusCode::kNotFound) {
    GTEST_SKIP() << "this machine has no python3";
  }
  const ProgramEnd end =
      *RunConfined({"python3", "-c", "import socket; socket.socket(); print('made')"}, "", {});
  EXPECT_EQ(end.output, "");
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
