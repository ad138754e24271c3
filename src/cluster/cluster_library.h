// What several machines need, behind one interface without gRPC's headers: the program opens
// libgraft_cluster.so for the subcommands that serve with others, and no other ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "etcd/etcd_client.h"
#include "jobs/learning_store.h"
#include "placement/policy.h"
#include "placement/scale_hint.h"
#include "request/adapter_catalog.h"
#include "request/generator.h"
#include "request/source_fetcher.h"
#include "request/step_news.h"
#include "rpc/protocol.h"
#include "rpc/runner_load.h"
#include "rpc/tls_files.h"

namespace graft {

struct ClusterPlace {
  EtcdOptions etcd;
  std::string id;         // "": the address
  std::string address;    // host:port that others reach it by; "": where it listens
  std::string view_file;  // "": the cluster is not known at a start while etcd is away
};

struct ClusterRunnerOptions {
  ClusterPlace place;
  std::function<void()> on_leave;  // it is marked for going; once, on a thread of the library
  std::string adapters_dir;        // its own folder, which clients do not learn of
  // Folders that what others read of its adapters lies inside, wherever links lead; {}: anywhere.
  std::vector<std::string> adapter_roots;
  // Folder of adapters that were fetched, see ContentStore; "": none is fetched.
  std::string store;
  std::function<Result<std::string>(const std::string& folder)> hash_folder;
  // Folder of learning, which the cluster shares; "": it has none. Whether this runner learns, and
  // takes jobs by ServedRunner::learning().
  std::string learn_dir;
  bool learns = false;
  // What it fetches for frontends; borrowed, null: nothing.
  SourceFetcher* sources = nullptr;
};

// A frontend's store of adapters' contents, see ContentServer.
struct ContentServerOptions {
  std::string store;  // ContentStore's folder
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one
  TlsFiles tls;
  std::function<Result<std::string>(const std::string& folder)> hash_folder;
  int64_t look_ms = 500;    // at the registry
  int64_t retry_ms = 5000;  // after a fetch that failed
  int64_t sweep_ms = 60'000;
};

struct ClusterFrontendOptions {
  ClusterPlace place;
  ContentServerOptions contents;         // no store: it keeps none
  std::string contents_advertised_host;  // by which runners reach them; "": where it listens
  std::string learn_dir;                 // as a runner's; "": no files and no jobs
  // The cluster's keys, a keys file's text, whenever they have changed; on a thread of the library.
  // Not called while the cluster has never had keys; "[]" once the last was taken away.
  std::function<void(const std::string& json)> on_keys;
  // Once a second, while there are frontends to share with: what was asked for since, by key's
  // digest; and what this one may let through a minute.
  std::function<std::map<std::string, int64_t>()> take_demand;
  std::function<void(std::map<std::string, double>)> on_shares;
};

// What `graft cluster` does. Answers are for people.
class ClusterAdmin {
 public:
  virtual ~ClusterAdmin() = default;
  virtual Result<std::string> Init(const std::string& base_name) = 0;
  virtual Result<std::string> Describe() = 0;
  virtual Result<std::string> SetBase(const BaseModelId& base) = 0;
  // Marks a runner for going, and waits until it has gone; kDeadlineExceeded.
  virtual Result<std::string> Drain(const std::string& runner, int wait_seconds) = 0;
  virtual Result<std::string> Restore(const std::string& view_file) = 0;
  virtual Result<std::string> Forget(const std::string& tenant) = 0;
  virtual Result<std::string> Versions(const std::string& adapter) = 0;
  virtual Result<std::string> RollBack(const std::string& adapter, int64_t version) = 0;
  virtual Result<std::string> SetWeight(const std::string& tenant, double weight) = 0;
  virtual Result<std::string> SetKeys(const std::string& json) = 0;
  virtual Result<std::string> Audit(size_t lines_max) = 0;
};

// What `graft cluster` does with a cluster's etcd. Main thread.
Result<std::unique_ptr<ClusterAdmin>> MakeClusterAdmin(const EtcdOptions& etcd);

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
  // The runners' sources; null where there is no etcd, by which runners have each other's adapters.
  virtual SourceFetcher* sources() { return nullptr; }
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
  // Whether etcd answers and has a cluster: asked before what takes long to load is loaded. Where
  // it waits, etcd has kEtcdPatienceMs for its answer.
  virtual Status CheckEtcd(const EtcdOptions& etcd, bool waits) const = 0;
};

}  // namespace graft

// The library's one entry: the version of this program that it was built with, and what it can do.
extern "C" const graft::ClusterLibrary* graft_cluster_library();
extern "C" const char* graft_cluster_library_version();
