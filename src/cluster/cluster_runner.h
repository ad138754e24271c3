// ClusterRunner: a runner in its cluster: served over gRPC, listed in etcd while it lives, with the
// adapters of the cluster's registry. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/cluster_library.h"
#include "cluster/cluster_watcher.h"
#include "cluster/content_store.h"
#include "cluster/etcd_learning_store.h"
#include "cluster/presence.h"
#include "cluster/registry_follower.h"
#include "rpc/adapter_service.h"
#include "rpc/runner_service.h"

namespace graft {

class ClusterRunner : public ServedRunner {
 public:
  // All referred to must outlive it.
  static Result<std::unique_ptr<ClusterRunner>> Start(const RunnerServiceOptions& service,
                                                      const ClusterRunnerOptions& options,
                                                      Generator& generator, AdapterCatalog& catalog,
                                                      std::function<RunnerLoad()> load);
  ~ClusterRunner() override;

  int port() const override { return service_->port(); }
  void OnDelivered() override { service_->OnDelivered(); }
  void OnStep(const StepNews& news) override { service_->OnStep(news); }
  void BeginDrain() override;
  LearningStore* learning() override { return learning_.get(); }

 private:
  ClusterRunner(const RunnerServiceOptions& service, ClusterRunnerOptions options,
                Generator& generator, AdapterCatalog& catalog, std::function<RunnerLoad()> load);
  Status Begin();
  void OnView(const std::shared_ptr<const ClusterView>& view);
  void LeaveIfMarked();
  Result<std::string> Locate(const AdapterInfo& entry, ContentSource source) const;
  Result<AdapterInfo> Serve(const AdapterLoad& load);
  // Addresses of processes that may have contents of adapters.
  std::vector<std::string> Peers() const;
  Result<std::string> FolderOf(const std::string& hash) const;
  RunnerRecord Describe();
  void TellLoop();
  void SweepStore() const;

  const RunnerServiceOptions service_options_;
  const ClusterRunnerOptions options_;
  Generator& generator_;
  AdapterCatalog& catalog_;
  const std::function<RunnerLoad()> load_;
  std::unique_ptr<EtcdClient> client_;
  std::unique_ptr<ContentStore> store_;  // null: none
  std::unique_ptr<AdapterService> adapters_;
  std::unique_ptr<RunnerService> service_;
  std::unique_ptr<ClusterWatcher> watcher_;
  std::unique_ptr<RegistryFollower> follower_;
  std::unique_ptr<Presence> presence_;
  std::unique_ptr<EtcdLearningStore> learning_;  // null: it does not learn
  std::string address_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool draining_ = false;
  // While they may be called: service_ and follower_.
  RunnerService* serving_ = nullptr;
  RegistryFollower* following_ = nullptr;
  const ProcessPlace process_ = ProcessPlace::Own();
  int num_tells_ = 0;        // only the telling thread's
  bool is_leaving_ = false;  // only the telling thread's
  std::thread teller_;
};

}  // namespace graft
