#include "engine/adapter_catalog.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/nearest_names.h"

namespace graft {
namespace {

constexpr size_t kNameBytesMax = 200;
constexpr size_t kHashDigitsShown = 12;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == ':' || c == '/' || c == '@';
}

}  // namespace

EngineAdapterCatalog::EngineAdapterCatalog(AdapterTable& table, AdapterBackend& backend,
                                           AdapterRegistry& registry, std::string adapters_dir,
                                           std::string base_name)
    : table_(table),
      backend_(backend),
      registry_(registry),
      adapters_dir_(std::move(adapters_dir)),
      base_name_(std::move(base_name)) {}

std::vector<AdapterInfo> EngineAdapterCatalog::List() const {
  std::shared_lock lock(names_mutex_);
  std::vector<AdapterInfo> infos;
  infos.reserve(names_.size());
  for (const auto& [name, info] : names_) infos.push_back(info);
  return infos;
}

Result<AdapterInfo> EngineAdapterCatalog::Find(const std::string& name) const {
  std::shared_lock lock(names_mutex_);
  const auto it = names_.find(name);
  if (it != names_.end()) return it->second;
  std::vector<std::string> known = {base_name_};
  for (const auto& [other, info] : names_) known.push_back(other);
  lock.unlock();
  const std::string nearest = NearestNames(name, known);
  return NotFoundError("there is no adapter '" + name + "'" +
                       (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
}

Result<AdapterInfo> EngineAdapterCatalog::Load(const std::string& name, const std::string& path,
                                               bool replace) {
  std::lock_guard load_lock(load_mutex_);
  return LoadLocked(name, path, replace, /*remember=*/true);
}

Result<AdapterInfo> EngineAdapterCatalog::LoadLocked(const std::string& name,
                                                     const std::string& path, bool replace,
                                                     bool remember) {
  RETURN_IF_ERROR(CheckName(name));
  if (adapters_dir_.empty()) {
    return FailedPreconditionError(
        "this server has no adapters folder to load from; start it with --adapters DIR");
  }
  ASSIGN_OR_RETURN(const std::string inside, ResolveInside(adapters_dir_, path));
  ASSIGN_OR_RETURN(const std::string hash, backend_.Hash(inside));
  std::string old_hash;
  if (const Result<AdapterInfo> old = Find(name); old.ok()) {
    if (old->hash == hash) return *old;
    if (!replace) {
      return AlreadyExistsError("'" + name + "' is loaded with other content (" +
                                old->hash.substr(0, kHashDigitsShown) +
                                "); unload it first, or ask for it to be replaced");
    }
    old_hash = old->hash;
  }
  ASSIGN_OR_RETURN(AdapterInfo info, MakeServable(inside, hash));
  info.name = name;
  info.loaded_at = UnixTimeSeconds();
  if (remember) {
    const Status remembered = Remember(info);
    if (!remembered.ok()) {
      RetireIfNameless(hash);
      return remembered;
    }
  }
  {
    std::unique_lock lock(names_mutex_);
    names_[name] = info;
  }
  if (!old_hash.empty()) RetireIfNameless(old_hash);
  return info;
}

Result<AdapterInfo> EngineAdapterCatalog::MakeServable(const std::string& path,
                                                       const std::string& hash) {
  if (table_.Contains(hash)) {
    std::shared_lock lock(names_mutex_);
    for (const auto& [name, other] : names_) {
      if (other.hash != hash) continue;
      AdapterInfo info = other;
      info.path = path;
      return info;
    }
  }
  ASSIGN_OR_RETURN(const int32_t slot, table_.Reserve());
  const Result<AdapterFacts> facts = backend_.Load(slot, path);
  if (!facts.ok()) {
    table_.Abandon(slot);
    return facts.status();
  }
  Status published = OkStatus();
  if (facts->hash != hash) {
    published = FailedPreconditionError(path + " changed while it was read; load it again");
  } else {
    published = table_.Publish(slot, hash);
  }
  if (!published.ok()) {
    backend_.Free(slot);
    table_.Abandon(slot);
    return published;
  }
  AdapterInfo info;
  info.hash = hash;
  info.path = path;
  info.base_model = facts->base_model;
  info.rank_max = facts->rank_max;
  info.bytes = facts->bytes;
  return info;
}

Status EngineAdapterCatalog::Remember(const AdapterInfo& info) {
  RegistryEntry entry;
  entry.name = info.name;
  entry.hash = info.hash;
  entry.path = info.path;
  entry.base_model = info.base_model;
  entry.rank_max = info.rank_max;
  entry.bytes = info.bytes;
  entry.loaded_at = info.loaded_at;
  return registry_.Upsert(entry);
}

Status EngineAdapterCatalog::Unload(const std::string& name) {
  std::lock_guard load_lock(load_mutex_);
  ASSIGN_OR_RETURN(const AdapterInfo info, Find(name));
  const Status forgotten = registry_.Remove(name);
  // Adapters of the folder were never remembered.
  if (!forgotten.ok() && forgotten.code() != StatusCode::kNotFound) return forgotten;
  {
    std::unique_lock lock(names_mutex_);
    names_.erase(name);
  }
  RetireIfNameless(info.hash);
  return OkStatus();
}

void EngineAdapterCatalog::RetireIfNameless(const std::string& hash) {
  {
    std::shared_lock lock(names_mutex_);
    const bool named = std::any_of(names_.begin(), names_.end(),
                                   [&](const auto& entry) { return entry.second.hash == hash; });
    if (named) return;
  }
  table_.Retire(hash);
}

Status EngineAdapterCatalog::CheckName(const std::string& name) const {
  if (name.empty() || name.size() > kNameBytesMax ||
      !std::all_of(name.begin(), name.end(), IsNameByte)) {
    return InvalidArgumentError("an adapter's name has 1 to 200 letters, digits and . _ - : / @");
  }
  if (name == base_name_) {
    return InvalidArgumentError("'" + name + "' is the base model's name; choose another");
  }
  return OkStatus();
}

Result<EngineAdapterCatalog::StartReport> EngineAdapterCatalog::RestoreFromRegistry() {
  std::lock_guard load_lock(load_mutex_);
  ASSIGN_OR_RETURN(const std::vector<RegistryEntry> entries, registry_.List());
  StartReport report;
  for (const RegistryEntry& entry : entries) {
    const Result<std::string> hash = backend_.Hash(entry.path);
    Status status = hash.status();
    if (hash.ok() && *hash != entry.hash) {
      status = FailedPreconditionError("its content is not what was loaded under this name (" +
                                       entry.hash.substr(0, kHashDigitsShown) +
                                       "); load it again to serve the new content");
    }
    if (status.ok()) {
      status = LoadLocked(entry.name, entry.path, /*replace=*/false, /*remember=*/false).status();
    }
    if (status.ok()) {
      ++report.num_loaded;
    } else {
      ++report.num_skipped;
      LOG_WARN("adapter '{}' of the registry is not served: {}", entry.name, status.message());
    }
  }
  return report;
}

Result<EngineAdapterCatalog::StartReport> EngineAdapterCatalog::LoadFolder() {
  namespace fs = std::filesystem;
  std::lock_guard load_lock(load_mutex_);
  std::error_code error;
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(adapters_dir_, error)) {
    if (FileExists(entry.path() / "adapter_config.json")) folders.push_back(entry.path());
  }
  if (error) {
    return NotFoundError("cannot list the adapters folder " + adapters_dir_ + ": " +
                         error.message());
  }
  std::sort(folders.begin(), folders.end());
  StartReport report;
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    if (Find(name).ok()) continue;  // the registry's choice for this name stands
    const Status status = LoadLocked(name, name, /*replace=*/false, /*remember=*/false).status();
    if (status.ok()) {
      ++report.num_loaded;
    } else {
      ++report.num_skipped;
      LOG_WARN("adapter '{}' is not served: {}", name, status.message());
    }
  }
  return report;
}

std::string EngineAdapterCatalog::NameOf(const std::string& hash) const {
  std::shared_lock lock(names_mutex_);
  for (const auto& [name, info] : names_) {
    if (info.hash == hash) return name;
  }
  return hash.substr(0, kHashDigitsShown);
}

}  // namespace graft
