// ClusterCatalog: a frontend's AdapterCatalog. It has the names of the cluster's registry and,
// after them, those of the runners' own folders. A runner checks an adapter that is to be loaded;
// then the adapter is registered for all frontends and runners. While etcd cannot be reached, loads
// are refused. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/cluster_watcher.h"
#include "cluster/etcd_registry.h"
#include "request/adapter_catalog.h"

namespace graft {

class ClusterCatalog : public AdapterCatalog {
 public:
  // Has a runner load it, or says why none can.
  using Prove = std::function<Result<AdapterInfo>(const AdapterLoad& load)>;

  // All referred to must outlive it. `runners`: what the runners say that they have.
  // No adapter may be called `base_name`. `unix_seconds`: when an adapter is loaded.
  ClusterCatalog(ClusterWatcher& watcher, EtcdRegistry& registry, AdapterCatalog& runners,
                 std::string base_name, Prove prove, std::function<int64_t()> unix_seconds);

  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t infos_max) const override;
  Result<AdapterInfo> Find(const std::string& name) const override;
  std::string NamesNear(const std::string& name, const NameFilter& allows) const override;
  AdapterState StateOf(const AdapterInfo& adapter) const override;
  Result<AdapterInfo> Load(const AdapterLoad& load) override;
  Status Unload(const std::string& name, const std::string& tenant) override;

 private:
  // kAlreadyExists: a runner's own folder has other content under this name.
  Status CheckRunnersFolders(const std::string& name, const std::string& hash) const;

  ClusterWatcher& watcher_;
  EtcdRegistry& registry_;
  AdapterCatalog& runners_;
  const std::string base_name_;
  const Prove prove_;
  const std::function<int64_t()> unix_seconds_;
};

}  // namespace graft
