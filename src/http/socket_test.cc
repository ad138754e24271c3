#include "http/socket.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl.hpp>
#include <optional>

namespace graft {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// The peer is silent, so that a read of the stream itself would not end.
TEST(SocketTest, ReadsBehindAShutdownOfTlsEndAtOnce) {
  asio::io_context io;
  asio::ssl::context tls(asio::ssl::context::tls_server);
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  tcp::socket peer(io);
  peer.connect(acceptor.local_endpoint());
  const std::unique_ptr<Socket> socket = MakeSocket(acceptor.accept(), &tls);
  bool is_shut = false;
  std::optional<size_t> got;
  char buffer[16];
  socket->AsyncShutdown([&] { is_shut = true; });
  socket->AsyncReadSome(buffer, sizeof(buffer), [&](size_t bytes) { got = bytes; });
  while (io.poll_one() != 0) {
  }
  EXPECT_EQ(got, 0u) << "nothing waits for the peer";
  socket->Close();
  io.restart();
  io.run();
  EXPECT_TRUE(is_shut);
}

}  // namespace
}  // namespace graft
