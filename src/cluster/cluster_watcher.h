// ClusterWatcher: a process's view of its cluster. A watch of etcd keeps it up to date, and a copy
// on disk serves a start while etcd cannot be reached. Only the cluster's own etcd takes an entry
// out of the view: it reports a deletion, or a full reading of it lacks the entry. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/status.h"
#include "cluster/cluster_store.h"
#include "cluster/cluster_view.h"
#include "etcd/etcd_patience.h"
#include "etcd/etcd_watch.h"

namespace graft {

class ClusterWatcher : public EtcdListener {
 public:
  struct Options {
    std::string view_file;                  // "": none
    int64_t come_back_ms = 10'000;          // for runners, once etcd was set back
    int64_t patience_ms = kEtcdPatienceMs;  // of a start without a view on disk
    UnixClock now = UnixTimeNs;             // of the changes that are made by store()
  };
  // Runs on a thread of this class's after each change.
  using OnView = std::function<void(const std::shared_ptr<const ClusterView>&)>;

  // Connects to the cluster in etcd or, while etcd cannot be reached, to the cluster of the view on
  // disk. Fails if there is neither for patience_ms, if etcd has no cluster, or if its cluster is
  // not the view's.
  // Returns once there is a view. `client` must outlive the watcher.
  static Result<std::unique_ptr<ClusterWatcher>> Start(EtcdClient& client, Options options,
                                                       OnView on_view = {});
  ~ClusterWatcher() override;

  std::shared_ptr<const ClusterView> view() const;
  // See ClusterMirror.
  std::set<std::string> Contents() const;
  std::map<std::string, std::string> LastingRecords() const;
  ClusterStore& store() { return *store_; }

 private:
  ClusterWatcher(EtcdClient& client, Options options, OnView on_view,
                 std::unique_ptr<ClusterStore> store, ClusterMirror mirror, Status away);

  void OnAll(const std::vector<EtcdKeyValue>& items, int64_t revision, bool set_back) override;
  void OnChanges(const std::vector<EtcdChange>& changes, int64_t revision) override;
  void OnAway(const Status& why) override;

  void Publish(std::unique_lock<std::mutex> lock);
  void Run();
  void Save(std::unique_lock<std::mutex>& lock);

  EtcdWorld& world_;
  const Options options_;
  const OnView on_view_;
  const std::unique_ptr<ClusterStore> store_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool heard_ = false;  // etcd has told all once
  bool unsaved_ = false;
  std::string save_failure_;  // that the log has told of; "": none
  int64_t let_go_at_ns_ = 0;  // when entries missing since etcd was set back go; 0: there are none
  ClusterMirror mirror_;
  Status away_;
  std::shared_ptr<const ClusterView> view_;
  std::unique_ptr<EtcdWatch> watch_;
  std::unique_ptr<EtcdWorld::Thread>
      thread_;  // writes the view, and removes entries that have not come back
};

}  // namespace graft
