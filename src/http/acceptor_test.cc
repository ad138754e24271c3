// Accepting connections when descriptors are short or handlers fail, and how many connections are
// accepted.
#include "http/acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "http/descriptors.h"

namespace graft {
namespace {

int OpenSocket() { return ::socket(AF_INET, SOCK_STREAM, 0); }

bool Connect(int descriptor, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

// Everything that the other side sends before it closes.
std::string ReadAll(int descriptor) {
  std::string all;
  char data[64];
  for (ssize_t bytes; (bytes = ::recv(descriptor, data, sizeof(data), 0)) > 0;) {
    all.append(data, static_cast<size_t>(bytes));
  }
  return all;
}

// An acceptor with handlers that send one word and close.
class AcceptorTest : public testing::Test {
 protected:
  void SetUp() override {
    acceptor_ = std::make_unique<Acceptor>(
        io_, Acceptor::Handlers{.adopt =
                                    [this](Acceptor::Socket socket, const auto&) {
                                      if (num_failures_-- > 0) throw std::bad_alloc();
                                      boost::asio::write(socket, boost::asio::buffer("yes", 3));
                                    },
                                .refuse =
                                    [](Acceptor::Socket socket) {
                                      boost::asio::write(socket, boost::asio::buffer("no", 2));
                                    }});
    ASSERT_TRUE(acceptor_->Listen("127.0.0.1", 0).ok());
    acceptor_->Start();
  }
  void TearDown() override {
    acceptor_->Close();
    if (thread_.joinable()) thread_.join();
  }
  void RunThread() {
    thread_ = std::thread([this] { io_.run(); });
  }

  boost::asio::io_context io_;
  std::unique_ptr<Acceptor> acceptor_;
  std::atomic<int> num_failures_{0};
  std::thread thread_;
};

TEST_F(AcceptorTest, AFailureOfAHandlerEndsOneConnection) {
  num_failures_ = 2;
  RunThread();
  for (const char* answer : {"", "", "yes", "yes"}) {
    const int client = OpenSocket();
    ASSERT_TRUE(Connect(client, acceptor_->port()));
    EXPECT_EQ(ReadAll(client), answer);
    ::close(client);
  }
}

TEST_F(AcceptorTest, WithoutADescriptorNewcomersAreTold) {
  const int first = OpenSocket();
  const int second = OpenSocket();
  const int third = OpenSocket();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = ::dup(first);
  ::close(lowest_free);
  rlimit none_free = before;
  none_free.rlim_cur = static_cast<rlim_t>(lowest_free);
  RunThread();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_free), 0);
  ASSERT_TRUE(Connect(first, acceptor_->port()));
  EXPECT_EQ(ReadAll(first), "no");
  ASSERT_TRUE(Connect(second, acceptor_->port()));
  EXPECT_EQ(ReadAll(second), "no");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(Connect(third, acceptor_->port()));
  EXPECT_EQ(ReadAll(third), "yes");
  for (const int descriptor : {first, second, third}) ::close(descriptor);
}

TEST(DescriptorsTest, ConnectionsLeaveRoomForFiles) {
  EXPECT_EQ(ConnectionsThatFit(100, 1024, 20).value(), 100);
  EXPECT_EQ(ConnectionsThatFit(8192, 1024, 20).value(), 1024 - 20 - kDescriptorsReserved);
  const auto none = ConnectionsThatFit(8192, 84, 20);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("ulimit -n"), std::string::npos);
  EXPECT_EQ(ConnectionsThatFit(8192, 85, 20).value(), 1);
}

}  // namespace
}  // namespace graft
