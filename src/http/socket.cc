#include "http/socket.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <utility>

namespace graft {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using TcpSocket = asio::ip::tcp::socket;

template <typename Stream>
class StreamSocket : public Socket {
 public:
  template <typename... Args>
  explicit StreamSocket(Args&&... args) : stream_(std::forward<Args>(args)...) {}

  void AsyncReadSome(char* buffer, size_t bytes, std::function<void(size_t bytes)> done) override {
    stream_.async_read_some(
        asio::buffer(buffer, bytes),
        [done = std::move(done)](error_code error, size_t got) { done(error ? 0 : got); });
  }

  // Writes in parts, each as large as the kernel has room for.
  void AsyncWrite(std::string_view data, std::function<void(bool ok)> done) override {
    stream_.async_write_some(
        asio::buffer(data.data(), data.size()),
        [this, data, done = std::move(done)](error_code error, size_t bytes) mutable {
          handed_over_ += bytes;
          if (error || bytes == data.size()) return done(!error);
          AsyncWrite(data.substr(bytes), std::move(done));
        });
  }

  WriteProgress progress() override {
    int unacknowledged = 0;
    const int descriptor = stream_.lowest_layer().native_handle();
    if (::ioctl(descriptor, SIOCOUTQ, &unacknowledged) != 0) unacknowledged = 0;
    return {.handed_over = handed_over_, .unacknowledged = unacknowledged};
  }

  void Close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 protected:
  Stream stream_;
  uint64_t handed_over_ = 0;
};

class PlainSocket : public StreamSocket<TcpSocket> {
 public:
  using StreamSocket::StreamSocket;

  size_t WriteSome(std::string_view data) override {
    const ssize_t sent =
        ::send(stream_.native_handle(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent <= 0) return 0;  // an error comes again
    handed_over_ += static_cast<uint64_t>(sent);
    return static_cast<size_t>(sent);
  }

  void AsyncHandshake(std::function<void(bool ok)> done) override {
    asio::post(stream_.get_executor(), [done = std::move(done)] { done(true); });
  }

  void AsyncShutdown(std::function<void()> done) override {
    error_code ignored;
    stream_.shutdown(TcpSocket::shutdown_send, ignored);
    asio::post(stream_.get_executor(), std::move(done));
  }
};

class TlsSocket : public StreamSocket<asio::ssl::stream<TcpSocket>> {
 public:
  using StreamSocket::StreamSocket;

  size_t WriteSome(std::string_view /*data*/) override { return 0; }

  void AsyncHandshake(std::function<void(bool ok)> done) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [done = std::move(done)](error_code error) { done(!error); });
  }

  // A read that was done before the shutdown began may ask for the next one after it.
  void AsyncReadSome(char* buffer, size_t bytes, std::function<void(size_t bytes)> done) override {
    if (!is_shut_) return StreamSocket::AsyncReadSome(buffer, bytes, std::move(done));
    asio::post(stream_.get_executor(), [done = std::move(done)] { done(0); });
  }

  // Sends close_notify and waits for the peer's, for which no other read may run.
  void AsyncShutdown(std::function<void()> done) override {
    is_shut_ = true;
    error_code ignored;
    stream_.lowest_layer().cancel(ignored);
    stream_.async_shutdown([done = std::move(done)](error_code) { done(); });
  }

 private:
  bool is_shut_ = false;
};

}  // namespace

std::unique_ptr<Socket> MakeSocket(TcpSocket socket, asio::ssl::context* tls) {
  if (tls == nullptr) return std::make_unique<PlainSocket>(std::move(socket));
  return std::make_unique<TlsSocket>(std::move(socket), *tls);
}

}  // namespace graft
