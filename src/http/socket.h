// Socket: one accepted connection's bytes, with or without TLS. Every method must be called on the
// socket's strand, and every callback runs there. A callback keeps alive whatever it captures until
// it has run. It runs exactly once, after Close at the latest.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace boost::asio::ssl {
class context;
}  // namespace boost::asio::ssl

namespace graft {

// How far the bytes of a connection have come.
struct WriteProgress {
  uint64_t handed_over = 0;    // bytes that the kernel has had from us
  int64_t unacknowledged = 0;  // of what it sends, the bytes that the peer has not taken yet

  bool operator==(const WriteProgress&) const = default;
};

class Socket {
 public:
  virtual ~Socket() = default;

  // TLS's handshake; without TLS done at once.
  virtual void AsyncHandshake(std::function<void(bool ok)> done) = 0;
  // Some bytes into `buffer`; 0 at the end or on failure. One at a time.
  virtual void AsyncReadSome(char* buffer, size_t bytes,
                             std::function<void(size_t bytes)> done) = 0;
  // As many of the first bytes as are taken without a wait; where that is not known, or failed, 0.
  // Not while AsyncWrite runs.
  virtual size_t WriteSome(std::string_view data) = 0;
  // Writes all of `data`, which must stay where it is until `done`. One at a time.
  virtual void AsyncWrite(std::string_view data, std::function<void(bool ok)> done) = 0;
  // Changes whenever the peer has taken some of what was written, down to its kernel's word for it.
  virtual WriteProgress progress() = 0;
  // Says that no more will be sent. With TLS the read that runs ends, and later ones end at once.
  virtual void AsyncShutdown(std::function<void()> done) = 0;
  // Ends everything that runs.
  virtual void Close() = 0;
};

// `tls` null: plain.
std::unique_ptr<Socket> MakeSocket(boost::asio::ip::tcp::socket socket,
                                   boost::asio::ssl::context* tls);

}  // namespace graft
