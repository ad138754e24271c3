#include "server/server.h"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/connection.h"
#include "server/work_queue.h"

namespace graft {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// What a shutdown gives requests past its deadline to be told so.
constexpr std::chrono::milliseconds kAbortTime{1500};

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

Status LoadTls(const ServerOptions& options, std::optional<asio::ssl::context>* tls) {
  if (options.tls_cert_file.empty() && options.tls_key_file.empty()) return OkStatus();
  if (options.tls_cert_file.empty() || options.tls_key_file.empty()) {
    return InvalidArgumentError("TLS needs both a certificate file and a key file");
  }
  using Context = asio::ssl::context;
  tls->emplace(Context::tls_server);
  error_code error;
  (*tls)->set_options(Context::default_workarounds | Context::no_sslv2 | Context::no_sslv3 |
                          Context::no_tlsv1 | Context::no_tlsv1_1,
                      error);
  if (!error) (*tls)->use_certificate_chain_file(options.tls_cert_file, error);
  if (error) {
    return InvalidArgumentError("the TLS certificate " + options.tls_cert_file + ": " +
                                error.message());
  }
  (*tls)->use_private_key_file(options.tls_key_file, Context::pem, error);
  if (error) {
    return InvalidArgumentError("the TLS key " + options.tls_key_file + ": " + error.message());
  }
  return OkStatus();
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(ServerContext context, ServerOptions options)
      : state_(std::move(context), std::move(options)),
        accept_strand_(asio::make_strand(io_)),
        acceptor_(accept_strand_),
        work_(asio::make_work_guard(io_)) {}

  ~Impl() { Shutdown(std::chrono::milliseconds(0)); }

  Status Start();
  uint16_t port() const { return port_; }
  void Shutdown(std::chrono::milliseconds deadline);

 private:
  Status Listen();
  void RunThread();
  asio::awaitable<void> AcceptLoop();
  void Adopt(tcp::socket socket, const asio::any_io_executor& strand);
  void Refuse(tcp::socket socket);
  template <typename Function>
  void ForEachConnection(Function function);

  // Destroyed last to first: the connections that io_ still holds use state_.
  ServerState state_;
  std::optional<asio::ssl::context> tls_;
  asio::io_context io_;
  asio::strand<asio::io_context::executor_type> accept_strand_;
  tcp::acceptor acceptor_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::optional<WorkQueue> workers_;
  std::optional<asio::thread_pool> loader_;
  std::vector<std::thread> threads_;
  uint16_t port_ = 0;
  bool started_ = false;

  std::mutex mutex_;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;
};

Status HttpServer::Impl::Start() {
  CHECK(!started_) << "Start is called once";
  const ServerOptions& options = state_.options;
  if (options.threads_max < 1) return InvalidArgumentError("--http-threads must be at least 1");
  if (!options.api_keys_file.empty()) {
    RETURN_IF_ERROR(state_.keys.LoadFile(options.api_keys_file));
  }
  if (!options.admin_key.empty()) RETURN_IF_ERROR(state_.keys.SetAdminKey(options.admin_key));
  RETURN_IF_ERROR(LoadTls(options, &tls_));
  RETURN_IF_ERROR(Listen());
  workers_.emplace(options.threads_max);
  state_.run_on_worker = [this](uint64_t owner, int64_t bytes, std::function<void()> work) {
    workers_->Run(owner, bytes, std::move(work));
  };
  loader_.emplace(1);
  state_.run_on_loader = [this](std::function<void()> work) {
    asio::post(*loader_, std::move(work));
  };
  asio::co_spawn(
      accept_strand_, [this] { return AcceptLoop(); }, asio::detached);
  for (int32_t i = 0; i < options.threads_max; ++i) {
    threads_.emplace_back([this] { RunThread(); });
  }
  started_ = true;
  LOG_INFO("listening on {}://{}:{}", tls_.has_value() ? "https" : "http", options.host, port_);
  return OkStatus();
}

// What a handler lets through (memory, mostly) ends that handler and not the server.
void HttpServer::Impl::RunThread() {
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::exception& exception) {
      LOG_ERROR("server thread: {}", exception.what());
    }
  }
}

Status HttpServer::Impl::Listen() {
  const ServerOptions& options = state_.options;
  ASSIGN_OR_RETURN(const tcp::endpoint endpoint, ResolveHost(io_, options.host, options.port));
  error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return UnavailableError("cannot listen on " + options.host + ":" +
                            std::to_string(options.port) + ": " + error.message() +
                            "; choose another port or host");
  }
  port_ = acceptor_.local_endpoint(error).port();
  return OkStatus();
}

asio::awaitable<void> HttpServer::Impl::AcceptLoop() {
  asio::steady_timer timer(accept_strand_);
  while (acceptor_.is_open()) {
    const asio::any_io_executor strand = asio::make_strand(io_);
    tcp::socket socket(strand);
    error_code error;
    co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      Adopt(std::move(socket), strand);
    } else if (acceptor_.is_open() && error != asio::error::connection_aborted) {
      // Out of file descriptors, most likely: somebody will close one.
      LOG_WARN("accept: {}", error.message());
      timer.expires_after(std::chrono::milliseconds(100));
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

void HttpServer::Impl::Adopt(tcp::socket socket, const asio::any_io_executor& strand) {
  if (state_.draining || state_.connections.count() >= state_.options.connections_max) {
    return Refuse(std::move(socket));
  }
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  asio::ssl::context* tls = tls_.has_value() ? &*tls_ : nullptr;
  auto connection =
      std::make_shared<Connection>(state_, strand, MakeSocket(std::move(socket), tls));
  {
    std::lock_guard lock(mutex_);
    // The dead are swept when the table has doubled since the last time, more or less.
    const size_t alive = static_cast<size_t>(state_.connections.count());
    if (connections_.size() > 2 * alive + 64) {
      std::erase_if(connections_, [](const auto& entry) { return entry.second.expired(); });
    }
    connections_[connection.get()] = connection;
  }
  connection->Start();
}

void HttpServer::Impl::Refuse(tcp::socket socket) {
  state_.metrics.ConnectionRefused();
  if (tls_.has_value()) return;
  ApiError error = HttpError(503, "too_many_connections", "The server has too many connections.");
  error.retry_after_s = 1;
  const HttpResponse response = ErrorResponse(error);
  const std::string data =
      FormatHead(response, {.keep_alive = false, .request_id = RandomName("req_")}) + response.body;
  // A fresh socket's buffer takes it whole; whoever cannot be told is closed on all the same.
  (void)::send(socket.native_handle(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

template <typename Function>
void HttpServer::Impl::ForEachConnection(Function function) {
  std::lock_guard lock(mutex_);
  for (const auto& [pointer, weak] : connections_) {
    if (const std::shared_ptr<Connection> connection = weak.lock()) function(*connection);
  }
}

void HttpServer::Impl::Shutdown(std::chrono::milliseconds deadline) {
  if (!started_) return;
  started_ = false;
  state_.draining = true;
  asio::post(accept_strand_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
  });
  const bool drained = state_.requests.WaitForNone(deadline);
  if (!drained) LOG_WARN("{} requests are cut off by the shutdown", state_.requests.count());
  ForEachConnection([](Connection& connection) { connection.Abort(); });
  while (!state_.connections.WaitForNone(kAbortTime)) {
    // Only a load can outlast this, and it is waited for.
    ForEachConnection([](Connection& connection) { connection.Kill(); });
  }
  workers_.reset();
  loader_->join();
  work_.reset();
  io_.stop();
  for (std::thread& thread : threads_) thread.join();
  LOG_INFO("server closed");
}

HttpServer::HttpServer(ServerContext context, ServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(context), std::move(options))) {}

HttpServer::~HttpServer() = default;

Status HttpServer::Start() { return impl_->Start(); }

uint16_t HttpServer::port() const { return impl_->port(); }

void HttpServer::Shutdown(std::chrono::milliseconds deadline) { impl_->Shutdown(deadline); }

}  // namespace graft
