// RegistryFollower: a runner's adapters are those of the cluster's registry, besides those of its
// own folder. What the registry names is loaded, what it takes away is unloaded, and content that
// is not what the registry says is not served under its name. A thread of its own loads;
// thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/cluster_view.h"
#include "request/adapter_catalog.h"

namespace graft {

// What Prove loads goes by this and its name until the registry has it: what the name leads to in
// the meantime stays.
inline constexpr char kProofPrefix[] = "proof:";

class RegistryFollower {
 public:
  struct Options {
    int64_t retry_ms = 5000;    // after a load that failed
    int64_t proof_ms = 30'000;  // that Prove's name has to appear in the registry
  };
  // The folder to load the entry's content from. `folder_is_stale`: the registry's own
  // cannot be loaded here, or has other content by now.
  using Locate =
      std::function<Result<std::string>(const RegistryEntry& entry, bool folder_is_stale)>;
  // `on_change` runs after each load and unload. `catalog` must outlive it.
  RegistryFollower(AdapterCatalog& catalog, Options options, Locate locate,
                   std::function<void()> on_change);
  ~RegistryFollower();

  // Never waits.
  void Follow(std::shared_ptr<const ClusterView> view);
  // Loads what is about to be registered under this name, or says why it cannot be served. Blocks.
  Result<AdapterInfo> Prove(const AdapterLoad& load);

 private:
  struct Failure {
    std::string hash;
    int64_t retry_at_ns = 0;
  };

  void Run();
  void Apply(const RegistryView& registry);
  Status LoadEntry(const RegistryEntry& entry);
  Status LoadFrom(const RegistryEntry& entry, bool folder_is_stale);
  void UnloadOthers(const RegistryView& registry);

  AdapterCatalog& catalog_;
  const Options options_;
  const Locate locate_;
  const std::function<void()> on_change_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool fresh_ = false;  // view_ has not been applied
  std::shared_ptr<const ClusterView> view_;
  std::map<std::string, int64_t> owned_;  // loaded for the registry; 0, or until when it is a proof
  std::map<std::string, Failure> failures_;  // by name; the thread's
  std::thread thread_;
};

}  // namespace graft
