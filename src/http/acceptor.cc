#include "http/acceptor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "base/log.h"
#include "http/check_address.h"

namespace graft {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kPauseAfterFailure{100};
constexpr std::chrono::seconds kQuietTime{10};

Result<tcp::endpoint> ResolveHost(asio::io_context& io, const std::string& host, uint16_t port) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(address, port);
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty()) {
    return InvalidArgumentError("the host '" + host +
                                "' is no address of this machine: " + error.message());
  }
  return found.begin()->endpoint();
}

// Linux lets two bind to a port that may be used anew; only one of them may listen.
Status ListenAt(asio::io_context& io, const std::string& host, uint16_t port,
                tcp::acceptor* acceptor) {
  ASSIGN_OR_RETURN(const tcp::endpoint endpoint, ResolveHost(io, host, port));
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (!error) return OkStatus();
  return UnavailableError("cannot listen on " + host + ":" + std::to_string(port) + ": " +
                          error.message() + "; choose another port or host");
}

}  // namespace

Status CheckAddress(const std::string& host, uint16_t port) {
  asio::io_context io;
  tcp::acceptor acceptor(io);
  return ListenAt(io, host, port, &acceptor);
}

Acceptor::Acceptor(asio::io_context& io, Handlers handlers)
    : io_(io), handlers_(std::move(handlers)), strand_(asio::make_strand(io)), acceptor_(strand_) {}

Acceptor::~Acceptor() {
  if (reserve_ >= 0) ::close(reserve_);
}

Status Acceptor::Listen(const std::string& host, uint16_t port) {
  RETURN_IF_ERROR(ListenAt(io_, host, port, &acceptor_));
  error_code error;
  port_ = acceptor_.local_endpoint(error).port();
  OpenReserve();
  return OkStatus();
}

void Acceptor::Start() { Spawn(/*after_failure=*/false); }

void Acceptor::Close() {
  asio::post(strand_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
  });
}

void Acceptor::Spawn(bool after_failure) {
  asio::co_spawn(
      strand_, [this, after_failure] { return Loop(after_failure); },
      [this](std::exception_ptr failure) {
        if (failure == nullptr || !acceptor_.is_open()) return;
        try {
          std::rethrow_exception(failure);
        } catch (const std::exception& exception) {
          WarnSeldom(exception.what());
        }
        Spawn(/*after_failure=*/true);
      });
}

asio::awaitable<void> Acceptor::Loop(bool after_failure) {
  bool pause = after_failure;
  asio::steady_timer timer(strand_);
  while (acceptor_.is_open()) {
    error_code error;
    if (pause) {
      timer.expires_after(kPauseAfterFailure);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (!acceptor_.is_open()) co_return;
    }
    const asio::any_io_executor strand = asio::make_strand(io_);
    tcp::socket socket(strand);
    co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    pause = false;
    if (!error) {
      handlers_.adopt(std::move(socket), strand);
    } else if (acceptor_.is_open() && error != asio::error::connection_aborted) {
      pause = !RefuseOne();
      WarnSeldom(error.message());
    }
  }
}

bool Acceptor::RefuseOne() {
  if (reserve_ >= 0) ::close(reserve_);
  reserve_ = -1;
  const int descriptor =
      ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor >= 0) {
    error_code error;
    tcp::socket socket(io_);
    socket.assign(acceptor_.local_endpoint(error).protocol(), descriptor, error);
    if (error) ::close(descriptor);
    if (!error) handlers_.refuse(std::move(socket));
  }
  OpenReserve();
  return descriptor >= 0;
}

void Acceptor::OpenReserve() { reserve_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

void Acceptor::WarnSeldom(const std::string& what) {
  ++num_unsaid_;
  const auto now = std::chrono::steady_clock::now();
  if (now < quiet_until_) return;
  LOG_WARN("accept: {} ({} times since the last such line)", what, num_unsaid_);
  num_unsaid_ = 0;
  quiet_until_ = now + kQuietTime;
}

}  // namespace graft
