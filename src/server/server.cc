#include "server/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "base/server_log.h"
#include "base/thread_name.h"
#include "http/acceptor.h"
#include "http/descriptors.h"
#include "http/host_check.h"
#include "http/tls_context.h"
#include "http/work_queue.h"
#include "server/connection.h"

namespace graft {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// The time that a shutdown gives requests past its deadline to be told so.
constexpr std::chrono::milliseconds kAbortTime{1500};
constexpr int32_t kHttpThreadsMax = 256;
constexpr size_t kNamesToldMax = 16;  // of those that keys name in vain

}  // namespace

Status CheckFiles(const ServerOptions& options) {
  ApiKeys keys(SteadyClock::Get());
  if (!options.api_keys_file.empty()) RETURN_IF_ERROR(keys.LoadFile(options.api_keys_file));
  if (!options.admin_key.empty()) RETURN_IF_ERROR(keys.SetAdminKey(options.admin_key));
  return LoadTlsContext(options.tls_cert_file, options.tls_key_file).status();
}

class HttpServer::Impl {
 public:
  Impl(ApiContext context, ServerOptions options)
      : state_(std::move(context), std::move(options)),
        acceptor_(io_, {.adopt = [this](tcp::socket socket,
                                        const auto& strand) { Adopt(std::move(socket), strand); },
                        .refuse = [this](tcp::socket socket) { Refuse(std::move(socket)); }}),
        work_(asio::make_work_guard(io_)) {}

  ~Impl() {
    while (!Shutdown(std::chrono::milliseconds(0))) {
    }
  }

  Status Start();
  Status Reload();
  ApiKeys& keys() { return state_.keys; }
  uint16_t port() const { return acceptor_.port(); }
  bool Shutdown(std::chrono::milliseconds deadline);

 private:
  using TlsContext = std::shared_ptr<asio::ssl::context>;

  Status LoadKeys();
  // What keys name and is not there: a slip of the hand gives its tenant an empty list, or leaves
  // an adapter to all.
  void WarnAboutNames();
  Status LoadTls();
  TlsContext tls() const {
    std::lock_guard lock(mutex_);
    return tls_;
  }
  // Takes the descriptors that connections may have.
  Status BoundConnections();
  Status StartThreads();
  void EndThreads();
  void RunThread();
  void Adopt(tcp::socket socket, const asio::any_io_executor& strand);
  // Whether there is room for one more, if need be by ending one that waits for a request.
  bool MakeRoom();
  void Refuse(tcp::socket socket);
  template <typename Function>
  void ForEachConnection(Function function);

  // Destroyed last to first: the connections that io_ still holds use state_.
  ServerState state_;
  asio::io_context io_;
  Acceptor acceptor_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::optional<WorkQueue> workers_;
  std::optional<asio::thread_pool> loader_;
  std::vector<std::thread> threads_;
  int32_t connections_max_ = 0;
  bool started_ = false;
  std::atomic<bool> names_looked_at_ = false;  // that keys name

  mutable std::mutex mutex_;
  TlsContext tls_;  // null: plain. A connection keeps what it began with
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;
};

Status HttpServer::Impl::Start() {
  CHECK(!started_) << "Start is called once";
  const ServerOptions& options = state_.options;
  if (options.threads_max < 1 || options.threads_max > kHttpThreadsMax) {
    return InvalidArgumentError("--http-threads must be 1 to " + std::to_string(kHttpThreadsMax));
  }
  RETURN_IF_ERROR(LoadKeys());
  WarnAboutNames();
  if (!options.admin_key.empty()) RETURN_IF_ERROR(state_.keys.SetAdminKey(options.admin_key));
  RETURN_IF_ERROR(LoadTls());
  state_.served_hosts = ServedHosts(options.allowed_hosts, options.host, state_.keys.required());
  RETURN_IF_ERROR(BoundConnections());
  RETURN_IF_ERROR(acceptor_.Listen(options.host, options.port));
  RETURN_IF_ERROR(StartThreads());
  started_ = true;
  LOG_INFO("listening on {}://{}:{}", tls() != nullptr ? "https" : "http", options.host, port());
  return OkStatus();
}

Status HttpServer::Impl::LoadKeys() {
  const std::string& given = state_.options.api_keys_json;
  if (!given.empty() && !started_) {
    const Status taken = state_.keys.LoadText(given);
    if (!taken.ok()) LOG_ERROR("a key that cannot be read is refused: {}", taken.message());
    return OkStatus();
  }
  if (state_.options.api_keys_file.empty()) return OkStatus();
  return state_.keys.LoadFile(state_.options.api_keys_file);
}

// A frontend's adapters are its runners': it looks once it knows some.
void HttpServer::Impl::WarnAboutNames() {
  const ApiContext& context = state_.context;
  if (context.fleet && context.catalog.ListAfter("", 1).empty()) return;
  names_looked_at_ = true;
  size_t num_told = 0, num_missing = 0;
  for (const auto& [name, tenant] : state_.keys.NamedModels()) {
    if (name == context.base_model || context.catalog.Find(name).ok()) continue;
    if (name.starts_with(kLearnedPrefix)) continue;  // which its tenant may yet learn
    if (context.sources != nullptr && context.sources->MayHave(name)) continue;  // or look up
    ++num_missing;
    if (num_told == kNamesToldMax) continue;
    ++num_told;
    const std::string near = context.catalog.NamesNear(name, {});
    LOG_WARN("a key of the tenant '{}' names the adapter '{}', which is not there{}", tenant, name,
             near.empty() ? "" : "; did it mean " + near + "?");
  }
  if (num_missing > num_told) {
    LOG_WARN("keys name {} more adapters that are not there", num_missing - num_told);
  }
}

Status HttpServer::Impl::LoadTls() {
  ASSIGN_OR_RETURN(TlsContext tls,
                   LoadTlsContext(state_.options.tls_cert_file, state_.options.tls_key_file));
  std::lock_guard lock(mutex_);
  tls_ = std::move(tls);
  return OkStatus();
}

// Each of the two on its own: a mistake in one file does not keep the other from its place.
Status HttpServer::Impl::Reload() {
  const Status keys = LoadKeys();
  if (keys.ok()) WarnAboutNames();
  const Status tls = LoadTls();
  return keys.ok() ? tls : keys;
}

Status HttpServer::Impl::BoundConnections() {
  const int32_t wanted = state_.options.connections_max;
  const int64_t limit = RaiseDescriptorLimit();
  ASSIGN_OR_RETURN(connections_max_, ConnectionsThatFit(wanted, limit, CountDescriptors()));
  // A new connection's tenant is known only once its head is read. Where tenants share the
  // connections, some are kept for connections that have not come that far.
  const int32_t kept = state_.keys.required() ? (connections_max_ + 15) / 16 : 0;
  state_.busy_connections.SetMax(std::max(connections_max_ - kept, 1));
  if (connections_max_ < wanted) {
    LOG_WARN(
        "{} connections are served, not the {} of --connections-max: this process may open {} "
        "files and sockets; raise that limit (ulimit -n, LimitNOFILE= of systemd)",
        connections_max_, wanted, limit);
  }
  return OkStatus();
}

Status HttpServer::Impl::StartThreads() {
  const int32_t num_threads = state_.options.threads_max;
  try {
    workers_.emplace(num_threads);
    loader_.emplace(1);
    asio::post(*loader_, [] { NameThread("http loader"); });
    for (int32_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { RunThread(); });
  } catch (const std::exception& error) {
    work_.reset();
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return ResourceExhaustedError(std::string("the machine gives no more threads (") +
                                  error.what() + "); choose fewer with --http-threads");
  }
  state_.run_on_worker = [this](uint64_t owner, int64_t bytes, std::function<void()> work) {
    workers_->Run(owner, bytes, std::move(work));
  };
  state_.run_on_loader = [this](std::function<void()> work) {
    asio::post(*loader_, std::move(work));
  };
  state_.dashboard->Start([this] {
    state_.metrics.Sample(state_.memory.num_taken(), ServerLog::num_dropped());
    if (state_.context.fleet) state_.metrics.SampleFleet(state_.context.fleet());
    if (!names_looked_at_) WarnAboutNames();
  });
  acceptor_.Start();
  return OkStatus();
}

// An exception that a handler lets through (memory, mostly) ends that handler, not the server.
void HttpServer::Impl::RunThread() {
  NameThread("http");
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::exception& exception) {
      LOG_ERROR("server thread: {}", exception.what());
    }
  }
}

bool HttpServer::Impl::MakeRoom() {
  if (state_.draining) return false;
  if (state_.connections.count() < connections_max_) return true;
  const std::shared_ptr<ConnectionIo> longest = state_.idle.TakeLongest();
  if (longest == nullptr) return false;
  state_.metrics.IdleConnectionClosed();
  longest->Kill();
  return true;
}

void HttpServer::Impl::Adopt(tcp::socket socket, const asio::any_io_executor& strand) {
  if (!MakeRoom()) return Refuse(std::move(socket));
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  auto connection =
      std::make_shared<Connection>(state_, strand, MakeSocket(std::move(socket), tls().get()));
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
  if (tls() != nullptr) return;
  ApiError error = HttpError(503, "too_many_connections", "The server has too many connections.");
  error.retry_after_s = state_.busy_connections.RetryAfterS(1);
  const HttpResponse response = ErrorResponse(error);
  const std::string data =
      FormatHead(response, {.keep_alive = false, .request_id = RandomName("req_")}) + response.body;
  // A fresh socket's buffer takes it whole; a client that cannot be told is closed all the same.
  (void)::send(socket.native_handle(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

template <typename Function>
void HttpServer::Impl::ForEachConnection(Function function) {
  std::lock_guard lock(mutex_);
  for (const auto& [pointer, weak] : connections_) {
    if (const std::shared_ptr<Connection> connection = weak.lock()) function(*connection);
  }
}

bool HttpServer::Impl::Shutdown(std::chrono::milliseconds deadline) {
  if (!started_) return true;
  if (!state_.draining.exchange(true)) {
    acceptor_.Close();
    const bool drained = state_.requests.WaitForNone(deadline);
    if (!drained) LOG_WARN("{} requests are cut off by the shutdown", state_.requests.count());
  }
  ForEachConnection([](Connection& connection) { connection.Abort(); });
  if (!state_.connections.WaitForNone(kAbortTime)) {
    ForEachConnection([](Connection& connection) { connection.Kill(); });
    if (!state_.connections.WaitForNone(state_.options.left_behind_timeout)) {
      LOG_ERROR("the work of {} requests goes on though nobody waits for it",
                state_.connections.count());
      return false;
    }
  }
  EndThreads();
  return true;
}

void HttpServer::Impl::EndThreads() {
  started_ = false;
  state_.dashboard->Stop();
  workers_.reset();
  loader_->join();
  work_.reset();
  io_.stop();
  for (std::thread& thread : threads_) thread.join();
  LOG_INFO("server closed");
}

HttpServer::HttpServer(ApiContext context, ServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(context), std::move(options))) {}

HttpServer::~HttpServer() = default;

Status HttpServer::Start() { return impl_->Start(); }

Status HttpServer::Reload() { return impl_->Reload(); }
ApiKeys& HttpServer::keys() { return impl_->keys(); }

uint16_t HttpServer::port() const { return impl_->port(); }

bool HttpServer::Shutdown(std::chrono::milliseconds deadline) { return impl_->Shutdown(deadline); }

}  // namespace graft
