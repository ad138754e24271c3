#include "cluster/registry_follower.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/milliseconds.h"

namespace graft {
namespace {

constexpr int64_t kLookMs = 500;
// In place of the time until which a name stays here.
constexpr int64_t kWhileRegistered = 0;
constexpr int64_t kGoesNow = 1;

}  // namespace

bool IsRunnersOwnName(const std::string& name) {
  return name.starts_with(kProofPrefix) || name.starts_with(kContentPrefix);
}

RegistryFollower::RegistryFollower(AdapterCatalog& catalog, Options options, Locate locate,
                                   std::function<void()> on_change)
    : catalog_(catalog),
      options_(options),
      locate_(std::move(locate)),
      on_change_(std::move(on_change)),
      thread_(options_.world->Start([this] { Run(); })) {}

RegistryFollower::~RegistryFollower() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.reset();
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
    owned_[proof.name] = options_.world->NowNs() + MsToNs(options_.proof_ms);
  }
  ASSIGN_OR_RETURN(AdapterInfo info, catalog_.Load(proof));
  info.name = load.name;
  on_change_();
  return info;
}

Result<AdapterInfo> RegistryFollower::Recall(const AdapterLoad& load) {
  AdapterInfo entry;
  entry.name = kContentPrefix + load.hash;
  entry.hash = load.hash;
  entry.path = load.path;
  entry.tenant = load.tenant;
  OwnContent(entry.name);
  RETURN_IF_ERROR(LoadEntry(entry));
  on_change_();
  return catalog_.Find(entry.name);
}

void RegistryFollower::KeepContent(const AdapterInfo& info) {
  if (info.hash.empty() || IsRunnersOwnName(info.name)) return;
  const std::string name = kContentPrefix + info.hash;
  const Result<AdapterInfo> kept = catalog_.Load(
      {.name = name, .path = "", .replace = true, .tenant = info.tenant, .hash = info.hash});
  if (kept.ok()) OwnContent(name);
}

// Keeps the content for former_ms. If there are too many, the one that would go first goes now.
void RegistryFollower::OwnContent(const std::string& name) {
  std::lock_guard lock(mutex_);
  owned_[name] = options_.world->NowNs() + MsToNs(options_.former_ms);
  std::vector<std::pair<int64_t, std::string>> contents;
  for (const auto& [other, until_ns] : owned_) {
    if (other.starts_with(kContentPrefix)) contents.emplace_back(until_ns, other);
  }
  if (contents.size() <= options_.formers_max) return;
  owned_[std::min_element(contents.begin(), contents.end())->second] = kGoesNow;
}

void RegistryFollower::Run() {
  int64_t whole_at_ns = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    options_.world->WaitFor(lock, wake_, MsToNs(kLookMs), [this] { return stopping_ || fresh_; });
    if (stopping_ || view_ == nullptr) continue;
    const int64_t now_ns = options_.world->NowNs();
    const bool is_whole = std::exchange(fresh_, false) || now_ns >= whole_at_ns;
    if (is_whole) whole_at_ns = now_ns + MsToNs(options_.whole_look_ms);
    const std::shared_ptr<const ClusterView> view = view_;
    lock.unlock();
    Apply(*view->registry, is_whole);
    lock.lock();
  }
}

// Names are many: between whole looks only those are looked at that are not served as they should.
void RegistryFollower::Apply(const RegistryView& registry, bool is_whole) {
  bool changed = false;
  const int64_t now_ns = options_.world->NowNs();
  const auto is_ending = [this] {
    std::lock_guard lock(mutex_);
    return stopping_;
  };
  if (is_whole) {
    for (const auto& [name, adapter] : registry.adapters) {
      changed |= ApplyOne(name, adapter.entry, now_ns);
      if (is_ending()) return;
    }
    std::erase_if(failures_,
                  [&](const auto& one) { return !registry.adapters.contains(one.first); });
  } else {
    std::vector<std::string> failed;
    for (const auto& [name, failure] : failures_) failed.push_back(name);
    for (const std::string& name : failed) {
      const auto adapter = registry.adapters.find(name);
      if (adapter == registry.adapters.end()) continue;
      changed |= ApplyOne(name, adapter->second.entry, now_ns);
      if (is_ending()) return;
    }
  }
  UnloadOthers(registry, is_whole);
  if (changed) on_change_();
}

bool RegistryFollower::ApplyOne(const std::string& name, const AdapterInfo& entry, int64_t now_ns) {
  bool changed = false;
  const Result<AdapterInfo> found = catalog_.Find(name);
  if (found.ok()) {
    std::lock_guard lock(mutex_);
    // A name learned here is in the catalog before the registry has it, and comes from no folder.
    // Frontends have not been told of it yet.
    const bool is_learned = entry.owner.has_value();
    if (!owned_.contains(name)) {
      if (is_learned) {
        changed = true;
      } else {
        folders_[name] = *found;
      }
    }
    owned_[name] = kWhileRegistered;
    if (found->hash == entry.hash) {
      failures_.erase(name);
      return changed;
    }
  }
  const auto failure = failures_.find(name);
  if (failure != failures_.end() && failure->second.hash == entry.hash &&
      now_ns < failure->second.retry_at_ns) {
    return changed;
  }
  if (found.ok()) KeepContent(*found);
  const Status loaded = LoadEntry(entry);
  if (loaded.ok()) {
    failures_.erase(name);
    std::lock_guard lock(mutex_);
    owned_[name] = kWhileRegistered;
    const auto proof = owned_.find(kProofPrefix + name);
    if (proof != owned_.end()) proof->second = kGoesNow;
    return true;
  }
  if (found.ok()) {  // not what the registry says
    const Status unloaded = catalog_.Unload(name, "");
    if (!unloaded.ok()) LOG_WARN("{}", unloaded.message());
    changed = true;
  }
  if (failure == failures_.end() || failure->second.hash != entry.hash) {
    LOG_WARN("adapter '{}' of the cluster is not served here: {}", name, loaded.message());
  }
  failures_[name] = {entry.hash, now_ns + MsToNs(options_.retry_ms)};
  return changed;
}

Status RegistryFollower::LoadEntry(const AdapterInfo& entry) {
  const Status own = LoadFrom(entry, ContentSource::kFolder);
  if (own.ok()) {
    const Status copied = LoadFrom(entry, ContentSource::kCopy);
    if (!copied.ok() && copied.code() != StatusCode::kNotFound) {
      LOG_WARN("adapter '{}' stays in its folder: {}", entry.name, copied.message());
    }
    return own;
  }
  const Status fetched = LoadFrom(entry, ContentSource::kElsewhere);
  if (fetched.ok()) return fetched;
  return Status(own.code(), own.message() + "; and " + fetched.message());
}

Status RegistryFollower::LoadFrom(const AdapterInfo& entry, ContentSource source) {
  ASSIGN_OR_RETURN(const std::string path, locate_(entry, source));
  // Only the registry's own place is the folder of what is learned.
  const bool is_learned = source == ContentSource::kFolder && entry.owner.has_value();
  return catalog_
      .Load({.name = entry.name,
             .path = path,
             .replace = true,
             .tenant = entry.tenant,
             .hash = entry.hash,
             .owner = is_learned ? entry.owner : std::nullopt,
             .fetched_revision = entry.revision,
             .is_looked_up = entry.is_looked_up})
      .status();
}

void RegistryFollower::UnloadOthers(const RegistryView& registry, bool is_whole) {
  std::vector<std::string> gone;
  {
    std::lock_guard lock(mutex_);
    const int64_t now_ns = options_.world->NowNs();
    for (auto it = owned_.begin(); it != owned_.end();) {
      const bool is_registrys = it->second == kWhileRegistered;
      const bool stays = it->second > now_ns || (is_registrys && !is_whole);
      if (stays || registry.adapters.contains(it->first)) {
        ++it;
        continue;
      }
      gone.push_back(it->first);
      it = owned_.erase(it);
    }
  }
  for (const std::string& name : gone) {
    const Result<AdapterInfo> info = catalog_.Find(name);
    if (info.ok()) KeepContent(*info);
    if (!RestoreFolders(name)) (void)catalog_.Unload(name, "");  // it may never have been loaded
    if (info.ok() && !IsRunnersOwnName(name)) {
      LOG_INFO("adapter '{}' left the cluster's registry", name);
    }
  }
  if (!gone.empty()) on_change_();
}

// The name leads to what the runner's own folder had under it before it was registered.
bool RegistryFollower::RestoreFolders(const std::string& name) {
  const auto own = folders_.find(name);
  if (own == folders_.end()) return false;
  const AdapterInfo info = std::move(own->second);
  folders_.erase(own);
  const Status restored = catalog_
                              .Load({.name = name,
                                     .path = info.path,
                                     .replace = true,
                                     .tenant = info.tenant,
                                     .hash = info.hash})
                              .status();
  if (!restored.ok()) LOG_WARN("adapter '{}' is not served: {}", name, restored.message());
  return restored.ok();
}

}  // namespace graft
