// What several machines need, behind one interface without gRPC's headers: the program opens
// libgraft_cluster.so for the subcommands that serve with others, and no other ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "cluster/cluster_parts.h"
#include "jobs/learning_store.h"
#include "placement/policy.h"
#include "placement/scale_hint.h"
#include "request/adapter_catalog.h"
#include "request/generator.h"
#include "request/step_news.h"
#include "rpc/protocol.h"
#include "rpc/runner_load.h"
#include "rpc/tls_files.h"

namespace graft {

// A runner that frontends can reach. Its end cancels what they asked for.
class ServedRunner {
 public:
  virtual ~ServedRunner() = default;
  virtual int port() const = 0;
  // The engine's thread, after every step's events.
  virtual void OnDelivered() = 0;
  // The engine's thread, see Engine::SetOnStep.
  virtual void OnStep(const StepNews& news) = 0;
  // Frontends are told to go elsewhere; what they leave is finished.
  virtual void BeginDrain() = 0;
  // The cluster's jobs, for the thread that learns; null where this runner does not.
  virtual LearningStore* learning() { return nullptr; }
};

// A frontend's view of its runners. Thread-safe.
class RunnersInReach {
 public:
  virtual ~RunnersInReach() = default;
  virtual Generator& generator() = 0;
  virtual AdapterCatalog& catalog() = 0;
  // Whether any runner is up; else why not.
  virtual Status ready() const = 0;
  // How many there should be: the leader's word, or this frontend's own where none leads.
  virtual ScaleHint hint() const = 0;
  // The number of runners thought to hold the content on their devices.
  virtual int32_t NumHolders(const std::string& hash) const = 0;
  // The cluster's files and jobs; null without a folder of learning.
  virtual LearningStore* learning() { return nullptr; }
  // Whether any runner learns; else what to start.
  virtual Status learns() const { return OkStatus(); }
};

// What a RunnerSet is started with.
struct RunnerSetOptions {
  std::vector<std::string> addresses;  // host:port of each
  bool addresses_come_later = false;   // by SetRunners; else there must be one
  TlsFiles tls;
  BaseModelId base;
  GeneratorLimits limits;  // until a runner is up; its requests_max is the frontend's own
  PlacementOptions placement;
  // startup_seconds 0: as long as the slowest runner took.
  ScaleOptions scale = {.startup_seconds = 0.0};
  // Runners beyond the number wanted are emptied; where they come later SetSpare says which.
  bool consolidates = false;
  Metrics* metrics = nullptr;  // null: a private one
  // So many runners may die in steps that hold a request which has drawn nothing there; after that
  // it runs alone in its steps, and is given up if that kills a runner, too.
  int32_t deaths_max = 3;
  // How long a request waits for a runner that can take it, or go on with it. For room at one it
  // waits without a limit.
  int64_t runner_wait_ns = 30'000'000'000;
};

class ClusterLibrary {
 public:
  virtual ~ClusterLibrary() = default;
  // Everything referred to must outlive what is returned. `load` is called on its threads.
  virtual Result<std::unique_ptr<ServedRunner>> ServeRunner(
      const RunnerServiceOptions& options, Generator& generator, AdapterCatalog& catalog,
      std::function<RunnerLoad()> load) const = 0;
  virtual Result<std::unique_ptr<RunnersInReach>> ReachRunners(
      const RunnerSetOptions& options) const = 0;
  // The same in a cluster: etcd has the list of processes, the adapters and the keys. `runners` has
  // no addresses.
  virtual Result<std::unique_ptr<ServedRunner>> ServeClusterRunner(
      const RunnerServiceOptions& service, const ClusterRunnerOptions& options,
      Generator& generator, AdapterCatalog& catalog, std::function<RunnerLoad()> load) const = 0;
  virtual Result<std::unique_ptr<RunnersInReach>> ReachCluster(
      const RunnerSetOptions& runners, const ClusterFrontendOptions& options) const = 0;
  virtual Result<std::unique_ptr<ClusterAdmin>> Administer(const EtcdOptions& etcd) const = 0;
  // Whether etcd answers and has a cluster: asked before what takes long to load is loaded.
  virtual Status CheckEtcd(const EtcdOptions& etcd) const = 0;
};

}  // namespace graft

// The library's one entry: the version of this program that it was built with, and what it can do.
extern "C" const graft::ClusterLibrary* graft_cluster_library();
extern "C" const char* graft_cluster_library_version();
