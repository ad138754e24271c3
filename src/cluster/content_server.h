// ContentServer: a frontend's store of adapters' contents. It has what the names of the cluster's
// registry lead to, and what they led to before, and gives it to runners that ask by content hash:
// so a content outlives the runners that had it. A thread of its own fetches; thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "cluster/adapter_store.h"
#include "cluster/cluster_watcher.h"
#include "rpc/tls_files.h"

namespace graft {

class ContentServer {
 public:
  struct Options {
    std::string store;  // AdapterStore's folder
    std::string host = "127.0.0.1";
    uint16_t port = 0;  // 0: any free one
    TlsFiles tls;
    AdapterStore::HashFolder hash_folder;
    int64_t look_ms = 500;    // at the registry
    int64_t retry_ms = 5000;  // after a fetch that failed
    int64_t sweep_ms = 60'000;
  };
  // `watcher` must outlive it.
  static Result<std::unique_ptr<ContentServer>> Start(const Options& options,
                                                      const ClusterWatcher& watcher);
  ~ContentServer();

  int port() const;

 private:
  class Server;
  ContentServer(const Options& options, const ClusterWatcher& watcher, AdapterStore store);
  void Run();
  void FetchMissing(const ClusterView& view);
  bool stopping();

  const Options options_;
  const ClusterWatcher& watcher_;
  const AdapterStore store_;
  std::unique_ptr<Server> server_;
  // The thread's.
  std::shared_ptr<const RegistryView> complete_;  // all of it is there
  std::set<std::string> failed_;                  // hashes that the log has told of
  int64_t retry_at_ns_ = 0;
  int64_t sweep_at_ns_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace graft
