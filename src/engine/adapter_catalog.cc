#include "engine/adapter_catalog.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/nearest_names.h"

namespace graft {
namespace {

constexpr size_t kNameBytesMax = 200;
constexpr size_t kHashDigitsShown = 12;

constexpr char kConfigFile[] = "/adapter_config.json";
constexpr char kWeightsFile[] = "/adapter_model.safetensors";

// Changes whenever one of the folder's files is written; a file that is not there counts, too.
std::string StampOf(const std::string& path, int64_t* weight_bytes = nullptr) {
  std::string stamp;
  for (const char* file : {kConfigFile, kWeightsFile}) {
    const Result<FileStamp> found = StampFile(path + file);
    stamp += found.ok()
                 ? std::to_string(found->bytes) + ":" + std::to_string(found->modified_ns) + ";"
                 : "none;";
    if (weight_bytes != nullptr) *weight_bytes = found.ok() ? found->bytes : 0;
  }
  return stamp;
}

// Whether a folder inside `root` was deleted: it is not there, and the nearest folder above it that
// is has something else in it. A disk that is away leaves an empty folder or one that cannot be
// looked into; so the doubtful stay.
bool IsDeleted(const std::filesystem::path& root, const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  const fs::path relative = path.lexically_relative(root);
  if (relative.empty() || *relative.begin() == "..") return false;
  std::error_code error;
  fs::path at = path;
  while (at != root && fs::symlink_status(at, error).type() == fs::file_type::not_found) {
    at = at.parent_path();
  }
  if (at == path) return false;
  const bool is_empty = fs::is_empty(at, error);
  return !error && !is_empty;
}

// Facts: AdapterFacts, or what the registry remembers of them.
template <typename Facts>
void Describe(const Facts& facts, AdapterInfo* info) {
  info->hash = facts.hash;
  info->base_model = facts.base_model;
  info->rank_max = facts.rank_max;
  info->bytes = facts.bytes;
}

// What is read lies inside as well as the folder that it is read from.
Status CheckFilesInside(const std::string& root, const std::string& folder) {
  for (const char* file : {kConfigFile, kWeightsFile}) {
    std::error_code unknown;
    if (!std::filesystem::is_symlink(folder + file, unknown)) continue;
    const Status inside = ResolveInside(root, folder + file).status();
    if (inside.code() == StatusCode::kPermissionDenied) return inside;
  }
  return OkStatus();
}

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

AdapterState EngineAdapterCatalog::StateOf(const AdapterInfo& adapter) const {
  const AdapterPlace place = table_.PlaceOf(adapter.key());
  if (place == AdapterPlace::kResident) return AdapterState::kResident;
  if (place == AdapterPlace::kLoading) return AdapterState::kLoading;
  if (adapter.hash.empty()) return AdapterState::kUnread;
  return backend_.Has(adapter.hash) ? AdapterState::kHost : AdapterState::kFolder;
}

Result<AdapterInfo> EngineAdapterCatalog::Load(const AdapterLoad& load) {
  std::lock_guard load_lock(load_mutex_);
  return LoadLocked(load, /*remember=*/true);
}

Result<AdapterInfo> EngineAdapterCatalog::LoadLocked(const AdapterLoad& load, bool remember) {
  RETURN_IF_ERROR(CheckName(load.name));
  ASSIGN_OR_RETURN(const std::string inside, ResolveFolder(load.path));
  ASSIGN_OR_RETURN(const std::string hash, backend_.Hash(inside));
  Result<AdapterInfo> old = Find(load.name);
  const bool is_same = old.ok() && old->hash == hash;
  if (is_same && old->path == inside && table_.SetPath(hash, inside)) {
    if (!remember) return old;
    // One of the folder's own was listed at start, and not because anybody asked for it.
    old->tenant = load.tenant;
    RETURN_IF_ERROR(Remember(*old));
    SetName(*old);
    return old;
  }
  if (old.ok() && !is_same && !load.replace && !(old->hash.empty() && old->path == inside)) {
    return AlreadyExistsError("'" + load.name + "' is loaded with other content (" +
                              old->hash.substr(0, kHashDigitsShown) +
                              "); unload it first, or ask for it to be replaced");
  }
  ASSIGN_OR_RETURN(AdapterInfo info, MakeServable(inside, hash));
  info.name = load.name;
  info.tenant = load.tenant;
  info.loaded_at = UnixTimeSeconds();
  if (remember) {
    const Status remembered = Remember(info);
    if (!remembered.ok()) {
      std::unique_lock lock(names_mutex_);
      RetireIfNameless(hash);
      return remembered;
    }
  }
  SetName(info);
  return info;
}

Result<std::string> EngineAdapterCatalog::ResolveFolder(const std::string& path) const {
  if (adapters_dir_.empty()) {
    return FailedPreconditionError(
        "this server has no adapters folder to load from; start it with --adapters DIR");
  }
  ASSIGN_OR_RETURN(const std::string inside, ResolveInside(adapters_dir_, path));
  RETURN_IF_ERROR(CheckFilesInside(adapters_dir_, inside));
  return inside;
}

Result<AdapterInfo> EngineAdapterCatalog::MakeServable(const std::string& path,
                                                       const std::string& hash) {
  {
    std::shared_lock lock(names_mutex_);
    const auto names = names_of_key_.find(hash);
    if (names != names_of_key_.end() && table_.SetPath(hash, path)) {
      AdapterInfo info = names_.at(*names->second.begin());
      info.path = path;
      return info;
    }
  }
  const std::string stamp = StampOf(path);
  ASSIGN_OR_RETURN(const AdapterFacts facts, backend_.Read(path));
  if (facts.hash != hash) {
    return FailedPreconditionError(path + " changed while it was read; load it again");
  }
  const Status published = table_.Publish({.path = path, .hash = hash, .key = hash});
  // A request's fetch may have read the same content first.
  if (published.code() == StatusCode::kAlreadyExists) {
    table_.SetPath(hash, path);
  } else {
    RETURN_IF_ERROR(published);
  }
  RememberFolder(path, stamp, facts);
  AdapterInfo info;
  info.path = path;
  Describe(facts, &info);
  return info;
}

void EngineAdapterCatalog::SetName(const AdapterInfo& info) {
  std::unique_lock lock(names_mutex_);
  const auto [it, is_new] = names_.try_emplace(info.name);
  const AdapterInfo old = std::exchange(it->second, info);
  names_of_key_[info.key()].insert(info.name);
  UpdatePriority(info.key());
  if (is_new || old.key() == info.key()) return;
  DetachName(info.name, old.key(), old.path);
}

void EngineAdapterCatalog::EraseName(const std::string& name) {
  std::unique_lock lock(names_mutex_);
  const auto it = names_.find(name);
  // As it is now: it may have been read since whoever unloads it looked.
  const AdapterInfo old = std::move(it->second);
  names_.erase(it);
  DetachName(name, old.key(), old.path);
}

void EngineAdapterCatalog::DetachName(const std::string& name, const std::string& key,
                                      const std::string& path) {
  std::set<std::string>& others = names_of_key_[key];
  others.erase(name);
  const Result<AdapterLease> lease = table_.Acquire(key);
  if (!others.empty() && lease.ok() && table_.SourceOf(lease->content()).path == path) {
    table_.SetPath(key, names_.at(*others.begin()).path);
  }
  UpdatePriority(key);
  RetireIfNameless(key);
}

void EngineAdapterCatalog::SetPriorities(std::map<std::string, int32_t> priorities) {
  std::unique_lock lock(names_mutex_);
  priorities_ = std::move(priorities);
  for (const auto& [key, names] : names_of_key_) UpdatePriority(key);
}

// The host's memory knows contents by hash: an unread one has to be read first.
void EngineAdapterCatalog::UpdatePriority(const std::string& key) {
  std::optional<int32_t> highest;
  for (const std::string& name : names_of_key_[key]) {
    if (names_.at(name).hash.empty()) return;
    const auto it = priorities_.find(name);
    highest = std::max(highest, std::optional(it == priorities_.end() ? 0 : it->second));
  }
  backend_.SetPriority(key, highest.value_or(0));
}

void EngineAdapterCatalog::RetireIfNameless(const std::string& key) {
  const auto names = names_of_key_.find(key);
  if (names != names_of_key_.end()) {
    if (!names->second.empty()) return;
    names_of_key_.erase(names);
  }
  table_.Retire(key);
}

void EngineAdapterCatalog::OnRead(const std::string& key, const AdapterFacts& facts) {
  std::string path;
  std::string stamp;
  {
    std::unique_lock lock(names_mutex_);
    stamp = unread_stamps_[key];
    unread_stamps_.erase(key);
    const auto names = names_of_key_.find(key);
    if (names == names_of_key_.end() || names->second.empty()) return;  // unloaded meanwhile
    for (const std::string& name : names->second) {
      AdapterInfo& info = names_.at(name);
      Describe(facts, &info);
      path = info.path;
    }
    const std::set<std::string> renamed = std::move(names->second);
    names_of_key_.erase(names);
    names_of_key_[facts.hash].insert(renamed.begin(), renamed.end());
    UpdatePriority(facts.hash);
    // Under the lock: whoever finds the new hash can ask for it.
    table_.Identify(key, facts.hash);
  }
  RememberFolder(path, stamp, facts);
}

// A registry that cannot be written costs the next start a reading, and nobody else anything.
void EngineAdapterCatalog::RememberFolder(const std::string& path, const std::string& stamp,
                                          const AdapterFacts& facts) {
  if (StampOf(path) != stamp) return;  // written while it was read
  const Status remembered = registry_.RememberFolder({.path = path,
                                                      .stamp = stamp,
                                                      .hash = facts.hash,
                                                      .base_model = facts.base_model,
                                                      .rank_max = facts.rank_max,
                                                      .bytes = facts.bytes});
  if (!remembered.ok()) LOG_WARN("{}", remembered.message());
}

Status EngineAdapterCatalog::Remember(const AdapterInfo& info) {
  RegistryEntry entry;
  entry.name = info.name;
  entry.hash = info.hash;
  entry.path = info.path;
  entry.base_model = info.base_model;
  entry.rank_max = info.rank_max;
  entry.bytes = info.bytes;
  entry.tenant = info.tenant;
  entry.loaded_at = info.loaded_at;
  return registry_.Upsert(entry);
}

Status EngineAdapterCatalog::Unload(const std::string& name) {
  std::lock_guard load_lock(load_mutex_);
  const Status found = Find(name).status();
  const Status forgotten = registry_.Remove(name);
  // Adapters of the folder were never remembered.
  if (!forgotten.ok() && forgotten.code() != StatusCode::kNotFound) return forgotten;
  // Remembered alone: its folder was gone, or had changed, when the server started.
  if (!found.ok()) return forgotten.ok() ? OkStatus() : found;
  EraseName(name);
  return OkStatus();
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

const RegistryFolder* EngineAdapterCatalog::Recall(const std::string& path,
                                                   const std::string& stamp) {
  const auto it = recalled_.find(path);
  return it != recalled_.end() && it->second.stamp == stamp ? &it->second : nullptr;
}

Status EngineAdapterCatalog::ListKnown(const std::string& name, const RegistryFolder& folder,
                                       const std::string& tenant) {
  if (!table_.Contains(folder.hash)) {
    RETURN_IF_ERROR(table_.Publish({.path = folder.path, .hash = folder.hash, .key = folder.hash}));
  }
  AdapterInfo info;
  info.name = name;
  info.path = folder.path;
  Describe(folder, &info);
  info.tenant = tenant;
  info.loaded_at = UnixTimeSeconds();
  SetName(info);
  return OkStatus();
}

Status EngineAdapterCatalog::ListUnread(const Folder& folder) {
  AdapterInfo info;
  info.name = folder.name;
  info.path = folder.path;
  info.unread_key = "unread " + folder.path;
  info.loaded_at = UnixTimeSeconds();
  // Two names may lead to one folder.
  if (!table_.Contains(info.unread_key)) {
    RETURN_IF_ERROR(table_.Publish({.path = folder.path, .hash = "", .key = info.unread_key}));
  }
  SetName(info);
  std::unique_lock lock(names_mutex_);
  unread_stamps_[info.unread_key] = folder.stamp;
  return OkStatus();
}

Result<EngineAdapterCatalog::StartReport> EngineAdapterCatalog::RestoreFromRegistry() {
  std::lock_guard load_lock(load_mutex_);
  ASSIGN_OR_RETURN(const std::vector<RegistryEntry> entries, registry_.List());
  ASSIGN_OR_RETURN(std::vector<RegistryFolder> folders, registry_.ListFolders());
  for (RegistryFolder& folder : folders) recalled_[folder.path] = std::move(folder);
  StartReport report;
  for (const RegistryEntry& entry : entries) {
    const Status status = RestoreEntry(entry);
    if (status.ok()) {
      ++report.num_loaded;
    } else {
      ++report.num_skipped;
      not_restored_.insert(entry.name);
      LOG_WARN("adapter '{}' of the registry is not served (unload it to forget it): {}",
               entry.name, status.message());
    }
  }
  return report;
}

// The server may have another adapters folder or base model than when it was remembered.
Status EngineAdapterCatalog::RestoreEntry(const RegistryEntry& entry) {
  RETURN_IF_ERROR(CheckName(entry.name));
  ASSIGN_OR_RETURN(const std::string inside, ResolveFolder(entry.path));
  const RegistryFolder* known = Recall(inside, StampOf(inside));
  if (known != nullptr && known->hash == entry.hash) {
    return ListKnown(entry.name, *known, entry.tenant);
  }
  ASSIGN_OR_RETURN(const std::string hash, backend_.Hash(inside));
  if (hash != entry.hash) {
    return FailedPreconditionError("its content is not what was loaded under this name (" +
                                   entry.hash.substr(0, kHashDigitsShown) +
                                   "); load it again to serve the new content");
  }
  return LoadLocked({.name = entry.name, .path = inside, .tenant = entry.tenant},
                    /*remember=*/false)
      .status();
}

// Those whose names are free: neither taken, nor remembered for another content.
Result<std::vector<EngineAdapterCatalog::Folder>> EngineAdapterCatalog::FindFolders() const {
  namespace fs = std::filesystem;
  ASSIGN_OR_RETURN(const std::string root, ResolveInside(adapters_dir_, "."));
  std::error_code error;
  std::vector<Folder> folders;
  for (fs::directory_iterator it(root, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const fs::directory_entry& entry = *it;
    Folder folder;
    folder.name = entry.path().filename().string();
    folder.path = entry.path().string();
    std::error_code unknown;  // one that vanished meanwhile is no link; its stamp says so
    Status is_inside;
    if (entry.is_symlink(unknown)) {
      Result<std::string> inside = ResolveInside(root, folder.path);
      is_inside = inside.status();
      if (inside.ok()) folder.path = *inside;
    }
    if (is_inside.ok()) is_inside = CheckFilesInside(root, folder.path);
    if (!is_inside.ok()) {
      LOG_WARN("adapter '{}' is not served: {}", folder.name, is_inside.message());
      continue;
    }
    folder.stamp = StampOf(folder.path, &folder.weight_bytes);
    if (folder.stamp.starts_with("none;")) continue;
    std::shared_lock lock(names_mutex_);
    if (names_.contains(folder.name) || not_restored_.contains(folder.name)) continue;
    folders.push_back(std::move(folder));
  }
  if (error) {
    return NotFoundError("cannot list the adapters folder " + adapters_dir_ + ": " +
                         error.message());
  }
  std::sort(folders.begin(), folders.end(),
            [](const Folder& a, const Folder& b) { return a.name < b.name; });
  return folders;
}

// A registry that cannot be written keeps them until the next start.
void EngineAdapterCatalog::ForgetDeletedFolders() {
  const Result<std::string> root = ResolveFolder(".");
  if (!root.ok()) return;
  std::vector<std::string> deleted;
  for (const auto& [path, folder] : recalled_) {
    if (IsDeleted(*root, path)) deleted.push_back(path);
  }
  if (deleted.empty()) return;
  const Status forgotten = registry_.ForgetFolders(deleted);
  if (forgotten.ok()) {
    LOG_INFO("the registry forgets {} folders that were deleted", deleted.size());
  } else {
    LOG_WARN("{}", forgotten.message());
  }
}

Result<EngineAdapterCatalog::StartReport> EngineAdapterCatalog::LoadFolder(int64_t read_bytes_max) {
  std::lock_guard load_lock(load_mutex_);
  ASSIGN_OR_RETURN(const std::vector<Folder> folders, FindFolders());
  int64_t bytes = 0;
  for (const Folder& folder : folders) bytes += folder.weight_bytes;
  StartReport report;
  for (const Folder& folder : folders) {
    const RegistryFolder* known = Recall(folder.path, folder.stamp);
    const bool reads = read_bytes_max > 0 && bytes <= read_bytes_max;
    Status status = CheckName(folder.name);
    if (status.ok() && reads) {
      status = LoadLocked({.name = folder.name, .path = folder.path}, /*remember=*/false).status();
    } else if (status.ok()) {
      status = known != nullptr ? ListKnown(folder.name, *known, "") : ListUnread(folder);
    }
    if (status.ok()) {
      ++(reads ? report.num_loaded : report.num_listed);
    } else {
      ++report.num_skipped;
      LOG_WARN("adapter '{}' is not served: {}", folder.name, status.message());
    }
  }
  ForgetDeletedFolders();
  recalled_.clear();
  not_restored_.clear();
  return report;
}

std::string EngineAdapterCatalog::NameOf(const std::string& key) const {
  std::shared_lock lock(names_mutex_);
  const auto names = names_of_key_.find(key);
  if (names != names_of_key_.end() && !names->second.empty()) return *names->second.begin();
  // Of one that was never read no more than that: its folder is no business of who reads metrics.
  return key.substr(0, std::min(kHashDigitsShown, key.find(' ')));
}

}  // namespace graft
