#include "cluster/registry_follower.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"

namespace graft {
namespace {

constexpr int64_t kFollowerNsPerMs = 1'000'000;
constexpr std::chrono::milliseconds kLookInterval(500);
constexpr size_t kDigitsShown = 12;

}  // namespace

RegistryFollower::RegistryFollower(AdapterCatalog& catalog, Options options, Locate locate,
                                   std::function<void()> on_change)
    : catalog_(catalog),
      options_(options),
      locate_(std::move(locate)),
      on_change_(std::move(on_change)),
      thread_([this] { Run(); }) {}

RegistryFollower::~RegistryFollower() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void RegistryFollower::Follow(std::shared_ptr<const ClusterView> view) {
  {
    std::lock_guard lock(mutex_);
    fresh_ = fresh_ || view_ == nullptr || view_->registry != view->registry;
    view_ = std::move(view);
  }
  wake_.notify_all();
}

Result<AdapterInfo> RegistryFollower::Prove(const AdapterLoad& load) {
  AdapterLoad proof = load;
  proof.name = kProofPrefix + load.name;
  proof.replace = true;
  {
    std::lock_guard lock(mutex_);
    owned_[proof.name] = SteadyClock::Get().NowNs() + options_.proof_ms * kFollowerNsPerMs;
  }
  ASSIGN_OR_RETURN(AdapterInfo info, catalog_.Load(proof));
  info.name = load.name;
  on_change_();
  return info;
}

void RegistryFollower::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, kLookInterval, [this] { return stopping_ || fresh_; });
    if (stopping_ || view_ == nullptr) continue;
    fresh_ = false;
    const std::shared_ptr<const ClusterView> view = view_;
    lock.unlock();
    Apply(*view->registry);
    lock.lock();
  }
}

void RegistryFollower::Apply(const RegistryView& registry) {
  bool changed = false;
  const int64_t now_ns = SteadyClock::Get().NowNs();
  for (const auto& [name, adapter] : registry.adapters) {
    const RegistryEntry& entry = adapter.entry;
    const Result<AdapterInfo> found = catalog_.Find(name);
    if (found.ok() && found->hash == entry.hash) {
      std::lock_guard lock(mutex_);
      owned_[name] = 0;
      continue;
    }
    const auto failure = failures_.find(name);
    if (failure != failures_.end() && failure->second.hash == entry.hash &&
        now_ns < failure->second.retry_at_ns) {
      continue;
    }
    const Status loaded = LoadEntry(entry);
    if (loaded.ok()) {
      failures_.erase(name);
      changed = true;
      std::lock_guard lock(mutex_);
      owned_[name] = 0;
      const auto proof = owned_.find(kProofPrefix + name);
      if (proof != owned_.end()) proof->second = 0;
      if (stopping_) return;
      continue;
    }
    if (failure == failures_.end() || failure->second.hash != entry.hash) {
      LOG_WARN("adapter '{}' of the cluster is not served here: {}", name, loaded.message());
    }
    failures_[name] = {entry.hash, now_ns + options_.retry_ms * kFollowerNsPerMs};
  }
  UnloadOthers(registry);
  if (changed) on_change_();
}

Status RegistryFollower::LoadEntry(const RegistryEntry& entry) {
  const Status own = LoadFrom(entry, /*folder_is_stale=*/false);
  if (own.ok()) return own;
  const Status fetched = LoadFrom(entry, /*folder_is_stale=*/true);
  if (fetched.ok()) return fetched;
  return Status(own.code(), own.message() + "; and " + fetched.message());
}

Status RegistryFollower::LoadFrom(const RegistryEntry& entry, bool folder_is_stale) {
  AdapterLoad load{.name = entry.name, .path = entry.path, .replace = true, .tenant = entry.tenant};
  ASSIGN_OR_RETURN(load.path, locate_(entry, folder_is_stale));
  ASSIGN_OR_RETURN(const AdapterInfo info, catalog_.Load(load));
  if (info.hash == entry.hash) return OkStatus();
  const Status unloaded = catalog_.Unload(entry.name);
  if (!unloaded.ok()) LOG_WARN("{}", unloaded.message());
  return FailedPreconditionError(load.path + " has other content (" +
                                 info.hash.substr(0, kDigitsShown) + ") than was registered (" +
                                 entry.hash.substr(0, kDigitsShown) +
                                 "): load it again to serve the new content");
}

void RegistryFollower::UnloadOthers(const RegistryView& registry) {
  std::vector<std::string> gone;
  {
    std::lock_guard lock(mutex_);
    const int64_t now_ns = SteadyClock::Get().NowNs();
    for (auto it = owned_.begin(); it != owned_.end();) {
      const bool is_proof = it->second > now_ns;
      if (is_proof || registry.adapters.contains(it->first)) {
        ++it;
        continue;
      }
      gone.push_back(it->first);
      it = owned_.erase(it);
    }
  }
  for (const std::string& name : gone) {
    const Status unloaded = catalog_.Unload(name);
    if (unloaded.ok()) LOG_INFO("adapter '{}' left the cluster's registry", name);
  }
  if (!gone.empty()) on_change_();
}

}  // namespace graft
