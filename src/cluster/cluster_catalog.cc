#include "cluster/cluster_catalog.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/nearest_names.h"
#include "cluster/cluster_keys.h"
#include "cluster/registry_follower.h"

namespace graft {
namespace {

constexpr size_t kNamesLookedAtMax = 4096;
// For a change to come back to the frontend that made it.
constexpr std::chrono::milliseconds kViewPatience(2000);
constexpr std::chrono::milliseconds kViewPoll(5);

AdapterInfo ToInfo(const RegistryEntry& entry) {
  AdapterInfo info;
  info.name = entry.name;
  info.hash = entry.hash;
  info.path = entry.path;
  info.base_model = entry.base_model;
  info.rank_max = entry.rank_max;
  info.bytes = entry.bytes;
  info.tenant = entry.tenant;
  info.loaded_at = entry.loaded_at;
  return info;
}

RegistryEntry ToEntry(const AdapterInfo& info, const AdapterLoad& load) {
  return {.name = load.name,
          .hash = info.hash,
          .path = info.path,
          .base_model = info.base_model,
          .rank_max = info.rank_max,
          .bytes = info.bytes,
          .tenant = load.tenant,
          .loaded_at = UnixTimeSeconds()};
}

// Whoever asks next finds what was just changed.
template <typename Holds>
void WaitForView(const ClusterWatcher& watcher, const Holds& holds) {
  const auto end = std::chrono::steady_clock::now() + kViewPatience;
  while (!holds(*watcher.view()->registry) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kViewPoll);
  }
}

}  // namespace

ClusterCatalog::ClusterCatalog(ClusterWatcher& watcher, EtcdRegistry& registry,
                               AdapterCatalog& runners, std::string base_name, Prove prove)
    : watcher_(watcher),
      registry_(registry),
      runners_(runners),
      base_name_(std::move(base_name)),
      prove_(std::move(prove)) {}

std::vector<AdapterInfo> ClusterCatalog::ListAfter(const std::string& name,
                                                   size_t infos_max) const {
  const auto view = watcher_.view();
  std::vector<AdapterInfo> infos;
  const auto& adapters = view->registry->adapters;
  for (auto it = adapters.upper_bound(name); it != adapters.end() && infos.size() < infos_max;
       ++it) {
    infos.push_back(ToInfo(it->second.entry));
  }
  for (AdapterInfo& info : runners_.ListAfter(name, infos_max)) {
    const bool is_proof = HasPrefix(info.name, kProofPrefix);
    if (!is_proof && !adapters.contains(info.name)) infos.push_back(std::move(info));
  }
  std::sort(infos.begin(), infos.end(),
            [](const auto& left, const auto& right) { return left.name < right.name; });
  if (infos.size() > infos_max) infos.resize(infos_max);
  return infos;
}

Result<AdapterInfo> ClusterCatalog::Find(const std::string& name) const {
  const auto view = watcher_.view();
  const auto it = view->registry->adapters.find(name);
  if (it != view->registry->adapters.end()) return ToInfo(it->second.entry);
  if (HasPrefix(name, kProofPrefix)) return NotFoundError("there is no adapter '" + name + "'");
  return runners_.Find(name);
}

std::string ClusterCatalog::NamesNear(const std::string& name, const NameFilter& allows) const {
  const auto view = watcher_.view();
  std::vector<std::string> names;
  for (const auto& [other, adapter] : view->registry->adapters) {
    if (names.size() == kNamesLookedAtMax) break;
    if (!allows || allows(other)) names.push_back(other);
  }
  const std::string registered = NearestNames(name, names);
  return registered.empty() ? runners_.NamesNear(name, allows) : registered;
}

AdapterState ClusterCatalog::StateOf(const AdapterInfo& adapter) const {
  return runners_.StateOf(adapter);
}

Result<AdapterInfo> ClusterCatalog::Load(const AdapterLoad& load) {
  const auto view = watcher_.view();
  if (!view->away.ok()) {
    return UnavailableError("adapters cannot be loaded now: " + view->away.message());
  }
  if (load.name == base_name_) {
    return InvalidArgumentError("'" + load.name + "' is the base model's name; choose another");
  }
  const auto known = view->registry->adapters.find(load.name);
  ASSIGN_OR_RETURN(AdapterInfo info, prove_(load));
  const bool is_taken = known != view->registry->adapters.end();
  if (is_taken && !load.replace && known->second.entry.hash != info.hash) {
    return NameIsTaken(load.name, known->second.entry.hash);
  }
  const RegistryEntry entry = ToEntry(info, load);
  RETURN_IF_ERROR(registry_.Put(entry, load.replace));
  WaitForView(watcher_, [&](const RegistryView& registry) {
    const auto it = registry.adapters.find(load.name);
    return it != registry.adapters.end() && it->second.entry.hash == info.hash;
  });
  return ToInfo(entry);
}

Status ClusterCatalog::Unload(const std::string& name) {
  const auto view = watcher_.view();
  if (!view->away.ok()) {
    return UnavailableError("adapters cannot be unloaded now: " + view->away.message());
  }
  const Status removed = registry_.Remove(name);
  if (removed.code() == StatusCode::kNotFound && runners_.Find(name).ok()) {
    return FailedPreconditionError("'" + name +
                                   "' is of the runners' own folders: take it out of them");
  }
  RETURN_IF_ERROR(removed);
  WaitForView(watcher_,
              [&](const RegistryView& registry) { return !registry.adapters.contains(name); });
  return OkStatus();
}

}  // namespace graft
