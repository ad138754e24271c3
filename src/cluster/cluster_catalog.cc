#include "cluster/cluster_catalog.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/nearest_names.h"
#include "cluster/registry_follower.h"

namespace graft {
namespace {

constexpr size_t kNamesLookedAtMax = 4096;
// For a change to come back to the frontend that made it, and for another of etcd's machines to
// answer where one died.
constexpr std::chrono::milliseconds kViewPatience(2000);
constexpr std::chrono::milliseconds kViewPoll(5);

template <typename Holds>
bool WaitUntil(const Holds& holds) {
  const auto end = std::chrono::steady_clock::now() + kViewPatience;
  bool is_so = holds();
  for (; !is_so && std::chrono::steady_clock::now() < end; is_so = holds()) {
    std::this_thread::sleep_for(kViewPoll);
  }
  return is_so;
}

template <typename Holds>
void WaitForView(const ClusterWatcher& watcher, const Holds& holds) {
  WaitUntil([&] { return holds(*watcher.view()); });
}

// The view of an etcd that is heard, or why it is not.
Result<std::shared_ptr<const ClusterView>> ViewToChange(const ClusterWatcher& watcher,
                                                        const std::string& what) {
  // Another etcd than the cluster's does not become the right one by waiting.
  WaitForView(watcher, [](const ClusterView& view) {
    return view.away.ok() || view.away.code() == StatusCode::kFailedPrecondition;
  });
  auto view = watcher.view();
  if (view->away.ok()) return view;
  return UnavailableError("adapters cannot be " + what + " now: " + view->away.message());
}

}  // namespace

ClusterCatalog::ClusterCatalog(ClusterWatcher& watcher, EtcdRegistry& registry,
                               AdapterCatalog& runners, std::string base_name, Prove prove,
                               std::function<int64_t()> unix_seconds)
    : watcher_(watcher),
      registry_(registry),
      runners_(runners),
      base_name_(std::move(base_name)),
      prove_(std::move(prove)),
      unix_seconds_(std::move(unix_seconds)) {}

std::vector<AdapterInfo> ClusterCatalog::ListAfter(const std::string& name,
                                                   size_t infos_max) const {
  const auto view = watcher_.view();
  std::vector<AdapterInfo> infos;
  const auto& adapters = view->registry->adapters;
  for (auto it = adapters.upper_bound(name); it != adapters.end() && infos.size() < infos_max;
       ++it) {
    infos.push_back(it->second.entry);
  }
  for (AdapterInfo& info : runners_.ListAfter(name, infos_max)) {
    if (!adapters.contains(info.name)) infos.push_back(std::move(info));
  }
  std::sort(infos.begin(), infos.end(),
            [](const auto& left, const auto& right) { return left.name < right.name; });
  if (infos.size() > infos_max) infos.resize(infos_max);
  return infos;
}

Result<AdapterInfo> ClusterCatalog::Find(const std::string& name) const {
  const auto view = watcher_.view();
  const auto it = view->registry->adapters.find(name);
  if (it != view->registry->adapters.end()) return it->second.entry;
  return runners_.Find(name);
}

std::string ClusterCatalog::NamesNear(const std::string& name, const NameFilter& allows) const {
  const auto view = watcher_.view();
  std::vector<std::string> names;
  for (const auto& [other, adapter] : view->registry->adapters) {
    if (names.size() == kNamesLookedAtMax) break;
    // Which tenants may know of what a source has, its frontends alone can tell.
    if (adapter.entry.is_looked_up) continue;
    if (!allows || allows(other)) names.push_back(other);
  }
  const std::string registered = NearestNames(name, names);
  return registered.empty() ? runners_.NamesNear(name, allows) : registered;
}

AdapterState ClusterCatalog::StateOf(const AdapterInfo& adapter) const {
  return runners_.StateOf(adapter);
}

Result<AdapterInfo> ClusterCatalog::Load(const AdapterLoad& load) {
  ASSIGN_OR_RETURN(const auto view, ViewToChange(watcher_, "loaded"));
  if (load.name == base_name_) {
    return InvalidArgumentError("'" + load.name + "' is the base model's name; choose another");
  }
  if (IsRunnersOwnName(load.name)) {
    return InvalidArgumentError("names that begin with '" + std::string(kProofPrefix) + "' or '" +
                                kContentPrefix + "' are the cluster's own; choose another");
  }
  const auto known = view->registry->adapters.find(load.name);
  ASSIGN_OR_RETURN(AdapterInfo info, prove_(load));
  const bool is_taken = known != view->registry->adapters.end();
  if (is_taken && !load.replace && known->second.entry.hash != info.hash) {
    return NameIsTaken(load.name, known->second.entry.hash);
  }
  if (!is_taken && !load.replace) RETURN_IF_ERROR(CheckRunnersFolders(load.name, info.hash));
  info.name = load.name;
  info.tenant = load.tenant;
  info.loaded_at = unix_seconds_();
  info.revision = load.fetched_revision;
  info.is_looked_up = load.is_looked_up;
  RETURN_IF_ERROR(registry_.Put(info, load.replace));
  // The next caller must find what was just changed.
  WaitForView(watcher_, [&](const ClusterView& now) {
    const auto it = now.registry->adapters.find(load.name);
    return it != now.registry->adapters.end() && it->second.entry.hash == info.hash;
  });
  return info;
}

// A name that has just left the registry is let go by runners soon.
Status ClusterCatalog::CheckRunnersFolders(const std::string& name, const std::string& hash) const {
  Result<AdapterInfo> theirs = runners_.Find(name);
  const bool is_free = WaitUntil([&] {
    theirs = runners_.Find(name);
    return !theirs.ok() || theirs->hash == hash;
  });
  return is_free ? OkStatus() : NameIsTaken(name, theirs->hash);
}

Status ClusterCatalog::Unload(const std::string& name, const std::string& tenant) {
  RETURN_IF_ERROR(ViewToChange(watcher_, "unloaded").status());
  const Status removed = registry_.RemoveFor(name, tenant);
  if (removed.code() == StatusCode::kNotFound && runners_.Find(name).ok()) {
    return FailedPreconditionError("'" + name +
                                   "' is of the runners' own folders: take it out of them");
  }
  RETURN_IF_ERROR(removed);
  WaitForView(watcher_,
              [&](const ClusterView& now) { return !now.registry->adapters.contains(name); });
  return OkStatus();
}

}  // namespace graft
