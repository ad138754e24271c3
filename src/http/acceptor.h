// Acceptor takes connections on one address, and goes on whatever happens to single ones. When no
// descriptor is left, it uses a reserved one to refuse the new connection with an error text. An
// exception in a handler does not end it. Handlers run on the acceptor's strand.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace graft {

class Acceptor {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  struct Handlers {
    // A new connection, and the strand that its socket is on.
    std::function<void(Socket socket, const boost::asio::any_io_executor& strand)> adopt;
    // A connection that cannot be served, for want of descriptors.
    std::function<void(Socket socket)> refuse;
  };

  Acceptor(boost::asio::io_context& io, Handlers handlers);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Before the context's threads run. The error says what to change.
  Status Listen(const std::string& host, uint16_t port);
  uint16_t port() const { return port_; }
  void Start();
  // Any thread. Takes no more connections; work under way ends soon after.
  void Close();

 private:
  boost::asio::awaitable<void> Loop(bool after_failure);
  // Refuses one connection. True if there was one, so that the backlog shrinks.
  bool RefuseOne();
  void Spawn(bool after_failure);
  void OpenReserve();
  // At most one line in ten seconds.
  void WarnSeldom(const std::string& what);

  boost::asio::io_context& io_;
  const Handlers handlers_;
  boost::asio::strand<boost::asio::io_context::executor_type> strand_;
  boost::asio::ip::tcp::acceptor acceptor_;
  uint16_t port_ = 0;
  int reserve_ = -1;  // a descriptor that is given up to take a connection which is told no
  int64_t num_unsaid_ = 0;
  std::chrono::steady_clock::time_point quiet_until_;
};

}  // namespace graft
