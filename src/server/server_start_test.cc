// What a server takes of the machine when it starts.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "http/descriptors.h"
#include "server/server_testing.h"

namespace graft {
namespace {

TEST(ServerStartTest, TheSoftLimitIsRaised) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int64_t num_open = CountDescriptors();
  EXPECT_GE(num_open, 3);
  const int one_more = ::dup(0);
  EXPECT_EQ(CountDescriptors(), num_open + 1);
  ::close(one_more);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  TestServer test;
  EXPECT_TRUE(test.start_status.ok()) << test.start_status.ToString();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, std::min<rlim_t>(before.rlim_max, 1 << 20));
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(ServerStartTest, ThreadsFitTheMachine) {
  EXPECT_EQ(DefaultHttpThreads(0), 2);
  EXPECT_EQ(DefaultHttpThreads(2), 2);
  EXPECT_EQ(DefaultHttpThreads(32), 4);
  EXPECT_EQ(DefaultHttpThreads(256), 8);
  for (const int32_t threads : {0, -1, 257, 100000}) {
    ServerOptions options;
    options.threads_max = threads;
    const Status status = TestServer(options).start_status;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << threads;
    EXPECT_NE(status.message().find("1 to 256"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace graft
