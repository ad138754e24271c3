// SourceRunners: a frontend's way to have its cluster fetch an adapter of a source. One of the
// runners that have the source does, which all frontends choose alike by the adapter's name.
// Where it dies, the next one does. The others get it by content hash, as all that is registered.
// Thread-safe; calls block.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "cluster/cluster_watcher.h"
#include "request/source_fetcher.h"
#include "rpc/tls_files.h"

namespace graft {

// Addresses of the runners that have the source and do not drain, in the order in which they are
// asked for `name`. It depends on the name and the runners' ids alone.
std::vector<std::string> RunnersToFetch(const ClusterView& view, const std::string& source,
                                        const std::string& name);

class SourceRunners : public SourceFetcher {
 public:
  // `watcher` must outlive it.
  SourceRunners(const ClusterWatcher& watcher, TlsFiles tls);

  Result<SourceFolder> Fetch(const SourceOrder& order,
                             const std::atomic<bool>& is_cancelled) override;
  Status Drop(const std::string& source, const std::string& path) override;
  std::vector<std::string> names() const override;

  // The address of the runner that fetched the folder; "": none did.
  std::string FetcherOf(const std::string& path) const;

 private:
  void Remember(const std::string& path, const std::string& address);

  const ClusterWatcher& watcher_;
  const TlsFiles tls_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> fetched_by_;  // by path
};

}  // namespace graft
