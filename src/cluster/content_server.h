// ContentServer: a frontend's store of adapter contents. It has the contents of all names in the
// cluster's registry, present and past, and gives them to runners by content hash. So a content
// outlives the runners that had it. A thread of its own fetches; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "cluster/cluster_library.h"
#include "cluster/cluster_watcher.h"
#include "cluster/content_store.h"

namespace graft {

class ContentServer {
 public:
  // `watcher` must outlive it.
  static Result<std::unique_ptr<ContentServer>> Start(const ContentServerOptions& options,
                                                      const ClusterWatcher& watcher);
  ~ContentServer();

  int port() const;

 private:
  class Server;
  ContentServer(const ContentServerOptions& options, const ClusterWatcher& watcher,
                ContentStore store);
  void Run(const std::stop_token& stop);
  void FetchMissing(const ClusterView& view, const std::stop_token& stop);

  const ContentServerOptions options_;
  const ClusterWatcher& watcher_;
  const ContentStore store_;
  std::unique_ptr<Server> server_;
  // The thread's.
  std::shared_ptr<const RegistryView> complete_;  // all of it is there
  std::set<std::string> failed_;                  // hashes that the log has told of
  int64_t retry_at_ns_ = 0;
  int64_t sweep_at_ns_ = 0;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace graft
