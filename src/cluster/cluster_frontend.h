// ClusterFrontend: a frontend in its cluster: its runners are those that etcd lists, its adapters
// and keys those of the cluster's registry. It stands for election. Thread-safe.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/cluster_catalog.h"
#include "cluster/cluster_library.h"
#include "cluster/cluster_watcher.h"
#include "cluster/content_server.h"
#include "cluster/etcd_learning_store.h"
#include "cluster/etcd_registry.h"
#include "cluster/leader.h"
#include "cluster/presence.h"
#include "cluster/runner_set.h"
#include "cluster/source_runners.h"

namespace graft {

class ClusterFrontend : public RunnersInReach {
 public:
  // `runners` has no addresses. All callbacks may be called until the end.
  static Result<std::unique_ptr<ClusterFrontend>> Start(RunnerSetOptions runners,
                                                        ClusterFrontendOptions options);
  ~ClusterFrontend() override;

  Generator& generator() override { return *runners_; }
  AdapterCatalog& catalog() override { return *catalog_; }
  Status ready() const override { return runners_->ready(); }
  ScaleHint hint() const override;
  int32_t NumHolders(const std::string& hash) const override { return runners_->NumHolders(hash); }
  SourceFetcher* sources() override { return sources_.get(); }
  LearningStore* learning() override { return learning_.get(); }
  Status learns() const override;

 private:
  ClusterFrontend(RunnerSetOptions runners, ClusterFrontendOptions options);
  Status Begin();
  // Under view_mutex_.
  void Take(const ClusterView& view);
  void TakeHint(const ClusterView& view);
  std::vector<EtcdOperation> WhatToWrite(int64_t lease_id);
  std::vector<EtcdOperation> TrimsThatAreDue();
  Result<AdapterInfo> Prove(const AdapterLoad& load) const;
  Status ServeContents();
  FrontendRecord Describe(std::map<std::string, double> demand) const;
  void TellLoop();
  Status Recall(const MissingContent& missing) const;
  void RecallLoop();

  const RunnerSetOptions runners_options_;
  const ClusterFrontendOptions options_;
  const ProcessPlace process_ = ProcessPlace::Own();
  std::string id_;
  std::unique_ptr<EtcdClient> client_;
  std::unique_ptr<RunnerSet> runners_;
  std::unique_ptr<ClusterWatcher> watcher_;
  std::unique_ptr<EtcdRegistry> registry_;
  std::unique_ptr<ClusterCatalog> catalog_;
  std::unique_ptr<SourceRunners> sources_;
  std::unique_ptr<EtcdLearningStore> learning_;  // null: no files and no jobs
  std::unique_ptr<ContentServer> contents_;      // null: it keeps none
  std::string contents_address_;
  std::unique_ptr<Presence> presence_;
  std::unique_ptr<Leader> leader_;
  int64_t trim_at_ns_ = 0;  // the leader's thread's
  std::mutex view_mutex_;
  std::shared_ptr<const RegistryView> told_;  // the registry that requests and keys follow
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread teller_;
  std::thread recaller_;
};

}  // namespace graft
