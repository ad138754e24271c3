#include "cluster/runner_catalog.h"

#include <mutex>

#include "base/log.h"
#include "base/nearest_names.h"
#include "cluster/registry_follower.h"

namespace graft {
namespace {

Status FixedError() {
  return FailedPreconditionError(
      "a cluster's adapters are those of its runners' folders (graft runner --adapters DIR); put "
      "the adapter there and start the runners anew, one by one");
}

}  // namespace

void RunnerCatalog::SetRunner(size_t runner, const std::vector<ListedAdapter>& adapters) {
  std::unique_lock lock(mutex_);
  by_runner_[runner] = adapters;
  by_name_.clear();
  contents_.clear();
  for (const auto& [other, its] : by_runner_) {
    for (const ListedAdapter& adapter : its) {
      Content& content = contents_[adapter.info.hash];
      content.rank = adapter.info.rank_max;
      if (IsRunnersOwnName(adapter.info.name)) continue;
      // Only the registry says which tenant owns a learned adapter.
      if (adapter.info.name.starts_with(kLearnedPrefix)) continue;
      if (content.name.empty()) content.name = adapter.info.name;
      const auto [it, is_new] = by_name_.emplace(adapter.info.name, adapter);
      if (!is_new && it->second.info.hash != adapter.info.hash) {
        LOG_WARN("runners have different adapters named '{}': {:.12} is served, {:.12} is not",
                 adapter.info.name, it->second.info.hash, adapter.info.hash);
      }
    }
  }
}

bool RunnerCatalog::HasContent(const std::string& hash) const {
  std::shared_lock lock(mutex_);
  return contents_.contains(hash);
}

int32_t RunnerCatalog::RankOf(const std::string& hash) const {
  std::shared_lock lock(mutex_);
  const auto it = contents_.find(hash);
  return it == contents_.end() ? 0 : it->second.rank;
}

std::string RunnerCatalog::NameOf(const std::string& hash) const {
  std::shared_lock lock(mutex_);
  const auto it = contents_.find(hash);
  return it == contents_.end() ? "" : it->second.name;
}

std::vector<AdapterInfo> RunnerCatalog::ListAfter(const std::string& name, size_t infos_max) const {
  std::shared_lock lock(mutex_);
  std::vector<AdapterInfo> infos;
  for (auto it = by_name_.upper_bound(name); it != by_name_.end() && infos.size() < infos_max;
       ++it) {
    infos.push_back(it->second.info);
  }
  return infos;
}

Result<AdapterInfo> RunnerCatalog::Find(const std::string& name) const {
  std::shared_lock lock(mutex_);
  const auto it = by_name_.find(name);
  if (it != by_name_.end()) return it->second.info;
  if (by_runner_.empty()) {
    return UnavailableError("no runner has told yet which adapters it has; try again soon");
  }
  return NotFoundError("there is no adapter '" + name + "'");
}

std::string RunnerCatalog::NamesNear(const std::string& name, const NameFilter& allows) const {
  constexpr size_t kLookedAtMax = 4096;
  std::vector<std::string> names;
  if (!allows || allows(base_model_)) names.push_back(base_model_);
  std::shared_lock lock(mutex_);
  for (const auto& [other, adapter] : by_name_) {
    if (names.size() == kLookedAtMax) break;
    if (adapter.info.is_looked_up) continue;  // which tenants may know of it is not known here
    if (!allows || allows(other)) names.push_back(other);
  }
  lock.unlock();
  return NearestNames(name, names);
}

AdapterState RunnerCatalog::StateOf(const AdapterInfo& adapter) const {
  std::shared_lock lock(mutex_);
  const auto it = by_name_.find(adapter.name);
  return it == by_name_.end() ? AdapterState::kFolder : it->second.state;
}

Result<AdapterInfo> RunnerCatalog::Load(const AdapterLoad& /*load*/) { return FixedError(); }
Status RunnerCatalog::Unload(const std::string& name, const std::string& /*tenant*/) {
  RETURN_IF_ERROR(Find(name).status());
  return FixedError();
}

}  // namespace graft
