// EtcdMember: a process of a hostile simulation that depends on etcd, with the code that a frontend
// or a runner uses for it. Its record stands under a lease. A frontend stands for election and
// changes the registry; a runner follows the registry. Runs on simulated threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/random.h"
#include "cluster/cluster_watcher.h"
#include "cluster/etcd_registry.h"
#include "cluster/leader.h"
#include "cluster/presence.h"
#include "cluster/registry_follower.h"
#include "hostile/findings.h"
#include "hostile/sim_catalog.h"
#include "hostile/sim_etcd_client.h"

namespace graft {

// Nanoseconds of the clock on the wall when the virtual one begins.
inline constexpr int64_t kSimUnixNs = 1'700'000'000'000'000'000;

class EtcdMember {
 public:
  struct World {
    EventLoop* loop = nullptr;
    Random* random = nullptr;
    Findings* findings = nullptr;
    SimEtcd* etcd = nullptr;
    EtcdWay* way = nullptr;  // outlives the process
    Defect defect = Defect::kNone;
    int64_t run = 0;  // no two processes' are the same
    // A view that it has by now.
    std::function<void(const ClusterView& view)> on_view;
    // A change of the registry has ended: the hash that was to be put, and what came of it. Not
    // called for changes of a process that has died.
    std::function<void(const std::string& hash, int64_t begun_ns, const Status& status)> on_put;
  };

  EtcdMember(std::string id, bool is_frontend, const World& world);
  // Ends it as SIGKILL does: no other process is told.
  ~EtcdMember();

  const std::string& id() const { return id_; }
  bool is_frontend() const { return is_frontend_; }
  SimProcess& process() { return process_; }
  // By what it believes itself.
  bool leads() const { return leader_ != nullptr && leader_->leads(); }
  bool stands() const { return presence_ != nullptr && presence_->stands(); }
  // Null: it has not begun yet.
  ClusterWatcher* watcher() { return watcher_.get(); }
  const SimCatalog& catalog() const { return catalog_; }
  void SetChanging(bool is_changing) { is_changing_ = is_changing; }

 private:
  void Main();
  Status Begin();
  void ChangeSomething();
  std::string RecordText() const;
  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(world_.random->Below(static_cast<uint64_t>(below)));
  }

  const std::string id_;
  const bool is_frontend_;
  const World world_;
  SimProcess process_;
  SimThreads threads_;
  SimEtcdClient client_;
  SimCatalog catalog_;
  bool is_changing_ = true;
  int64_t num_changes_ = 0;
  std::unique_ptr<ClusterWatcher> watcher_;
  std::unique_ptr<RegistryFollower> follower_;
  std::unique_ptr<EtcdRegistry> registry_;
  std::unique_ptr<Presence> presence_;
  std::unique_ptr<Leader> leader_;
  std::unique_ptr<EtcdWorld::Thread> main_;
};

}  // namespace graft
