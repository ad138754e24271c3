#include "cluster/content_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/host_port.h"
#include "base/log.h"
#include "base/milliseconds.h"
#include "rpc/adapter_service.h"
#include "rpc/credentials.h"

namespace graft {

// AdapterService on a port of its own. A link in the store leads to no other file.
class ContentServer::Server {
 public:
  Server(const ContentStore& store, const std::string& folder)
      : service_(AdapterService::Handlers{
            .load = [](const AdapterLoad&) -> Result<AdapterInfo> {
              return UnimplementedError("a frontend serves no adapters: ask a runner");
            },
            .folder_of = [&store](const std::string& hash) { return store.Find(hash); },
            .jail = FileJail({folder})}) {}
  ~Server() {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  Status Listen(const ContentServerOptions& options) {
    ASSIGN_OR_RETURN(const auto credentials, MakeServerCredentials(options.tls));
    grpc::ServerBuilder builder;
    const std::string address = HostAndPort(options.host, options.port);
    builder.AddListeningPort(address, credentials, &port_);
    builder.RegisterService(&service_.grpc_service());
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    server_ = builder.BuildAndStart();
    if (server_ != nullptr && port_ != 0) return OkStatus();
    server_ = nullptr;
    return UnavailableError("cannot listen on " + address +
                            "; is it in use? --rpc-host, --rpc-port");
  }
  int port() const { return port_; }

 private:
  AdapterService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

Result<std::unique_ptr<ContentServer>> ContentServer::Start(const ContentServerOptions& options,
                                                            const ClusterWatcher& watcher) {
  ASSIGN_OR_RETURN(ContentStore store,
                   ContentStore::Open(options.store, options.tls, options.hash_folder));
  std::unique_ptr<ContentServer> server(new ContentServer(options, watcher, std::move(store)));
  RETURN_IF_ERROR(server->server_->Listen(options));
  server->thread_ = std::jthread([one = server.get()](std::stop_token stop) { one->Run(stop); });
  return server;
}

ContentServer::ContentServer(const ContentServerOptions& options, const ClusterWatcher& watcher,
                             ContentStore store)
    : options_(options),
      watcher_(watcher),
      store_(std::move(store)),
      server_(std::make_unique<Server>(store_, options_.store)) {}

ContentServer::~ContentServer() = default;

int ContentServer::port() const { return server_->port(); }

void ContentServer::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  while (true) {
    const auto view = watcher_.view();
    FetchMissing(*view, stop);
    const int64_t now_ns = SteadyClock::Get().NowNs();
    if (view->away.ok() && now_ns >= sweep_at_ns_) {
      sweep_at_ns_ = now_ns + MsToNs(options_.sweep_ms);
      store_.Sweep(watcher_.Contents(), kContentGrace);
    }
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, std::chrono::milliseconds(options_.look_ms), [] { return false; });
    if (stop.stop_requested()) return;
  }
}

void ContentServer::FetchMissing(const ClusterView& view, const std::stop_token& stop) {
  if (view.registry == complete_ || SteadyClock::Get().NowNs() < retry_at_ns_) return;
  bool has_all = true;
  for (const auto& [name, adapter] : view.registry->adapters) {
    const std::string& hash = adapter.entry.hash;
    if (store_.Find(hash).ok()) continue;
    if (stop.stop_requested()) return;
    const Result<std::string> got = store_.Get(hash, view.ContentHolders());
    if (got.ok()) {
      failed_.erase(hash);
      continue;
    }
    has_all = false;
    if (failed_.insert(hash).second) {
      LOG_WARN("adapter '{}' is not kept here: {}", name, got.status().message());
    }
  }
  complete_ = has_all ? view.registry : nullptr;
  retry_at_ns_ = has_all ? 0 : SteadyClock::Get().NowNs() + MsToNs(options_.retry_ms);
}

}  // namespace graft
