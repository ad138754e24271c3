// RegistryFollower makes a runner serve the adapters of the cluster's registry, besides those of
// its own folder. It loads what the registry names and unloads what the registry removes. A content
// that differs from the registry's is not served under its name. A thread of its own loads;
// thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cluster/cluster_view.h"
#include "etcd/etcd_world.h"
#include "request/adapter_catalog.h"

namespace graft {

// Prove loads an adapter under this prefix and its name until the registry has it: what the name
// leads to in the meantime stays.
inline constexpr char kProofPrefix[] = "proof:";
// A content without a registered name is kept under this prefix and its hash for a while: requests
// that began with it may come from a runner that dies.
inline constexpr char kContentPrefix[] = "content:";
// A runner's name for itself, which no client may use.
bool IsRunnersOwnName(const std::string& name);

// Where a content is looked for.
enum class ContentSource : uint8_t {
  kFolder,     // the registry's own
  kCopy,       // a copy of that folder, which nothing writes to any more
  kElsewhere,  // another machine, or where it was kept
};

class RegistryFollower {
 public:
  struct Options {
    int64_t retry_ms = 5000;  // after a load that failed
    // All names are looked at once the registry has changed, and so often anyway.
    int64_t whole_look_ms = 30'000;
    int64_t proof_ms = 30'000;  // that Prove's name has to appear in the registry
    // How long a content stays that a name led to, or that Recall loaded; and how many of them.
    int64_t former_ms = 600'000;
    size_t formers_max = 64;
    EtcdWorld* world = &EtcdWorld::Real();
  };
  // The folder to load the entry's content from; kNotFound: this runner makes no copies.
  using Locate = std::function<Result<std::string>(const AdapterInfo& entry, ContentSource source)>;
  // `on_change` runs after each load and unload. `catalog` must outlive it.
  RegistryFollower(AdapterCatalog& catalog, Options options, Locate locate,
                   std::function<void()> on_change);
  ~RegistryFollower();

  // Never waits.
  void Follow(std::shared_ptr<const ClusterView> view);
  // Loads what is about to be registered under this name, or says why it cannot be served. Blocks.
  Result<AdapterInfo> Prove(const AdapterLoad& load);
  // Loads the content of load.hash, wherever it is found, for requests that began with it on
  // another runner; load.path: where it once lay. Blocks.
  Result<AdapterInfo> Recall(const AdapterLoad& load);

 private:
  struct Failure {
    std::string hash;
    int64_t retry_at_ns = 0;
  };

  void Run();
  void Apply(const RegistryView& registry, bool is_whole);
  // What the name leads to here is made what the registry says. True: it has changed.
  bool ApplyOne(const std::string& name, const AdapterInfo& entry, int64_t now_ns);
  Status LoadEntry(const AdapterInfo& entry);
  Status LoadFrom(const AdapterInfo& entry, ContentSource source);
  bool RestoreFolders(const std::string& name);
  void UnloadOthers(const RegistryView& registry, bool is_whole);
  // Under a name of its own, as long as former_ms.
  void KeepContent(const AdapterInfo& info);
  void OwnContent(const std::string& name);

  AdapterCatalog& catalog_;
  const Options options_;
  const Locate locate_;
  const std::function<void()> on_change_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool fresh_ = false;  // view_ has not been applied
  std::shared_ptr<const ClusterView> view_;
  std::map<std::string, int64_t> owned_;  // loaded for the registry; 0, or until when it stays so
  std::map<std::string, Failure> failures_;     // by name; the thread's
  std::map<std::string, AdapterInfo> folders_;  // what the names led to before; the thread's
  std::unique_ptr<EtcdWorld::Thread> thread_;
};

}  // namespace graft
