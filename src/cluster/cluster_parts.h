// A runner's and a frontend's place in a cluster, and what an operator does with one, behind
// interfaces without gRPC's headers (cluster_library.h makes them). Plain data and interfaces.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "etcd/etcd_client.h"
#include "rpc/protocol.h"
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
  // Folder of adapters that were fetched, see AdapterStore; "": none is fetched.
  std::string store;
  std::function<Result<std::string>(const std::string& folder)> hash_folder;
  // Folder of learning, which the cluster shares; "": it has none. Whether this runner learns, and
  // takes jobs by ServedRunner::learning().
  std::string learn_dir;
  bool learns = false;
};

// A frontend's store of adapters' contents, see ContentServer.
struct ContentServerOptions {
  std::string store;  // AdapterStore's folder
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

}  // namespace graft
