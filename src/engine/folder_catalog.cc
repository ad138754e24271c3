#include "engine/folder_catalog.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/adapter_files.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "request/adapter_name.h"

namespace graft {
namespace {

constexpr size_t kHashDigitsShown = 12;

// Facts: AdapterFacts, or what the registry remembers of them.
template <typename Facts>
void Describe(const Facts& facts, AdapterInfo* info) {
  info->hash = facts.hash;
  info->base_model = facts.base_model;
  info->rank_max = facts.rank_max;
  info->num_virtual_tokens = facts.num_virtual_tokens;
  info->bytes = facts.bytes;
  info->changes_nothing = facts.changes_nothing;
  info->left_out = facts.left_out;
}

// Facts: as Describe's.
template <typename Facts>
void TellOfContent(const Facts& facts, const std::string& path) {
  if (facts.changes_nothing) LOG_WARN("{} {}", path, kChangesNothing);
  if (!facts.left_out.empty()) LOG_WARN("{}: {}", path, facts.left_out);
}

// A trainer that wrote both wrote the same twice.
void TellOfPickle(const std::string& path) {
  if (!FileExists(path + "/adapter_model.bin")) return;
  if (!FileExists(path + "/" + kPeftFiles[1])) return;
  LOG_INFO("{}: adapter_model.safetensors is served, adapter_model.bin beside it is not read",
           path);
}

void WarnOfTextsLeftOut(const AdapterFacts& facts, const std::string& path) {
  if (!facts.leaves_texts_out) return;
  LOG_WARN(
      "{} is served as an earlier version loaded it, without its chat template and its ends of "
      "answers; load it again to have them",
      path);
}

}  // namespace

FolderCatalog::FolderCatalog(ContentTable& table, AdapterBackend& backend, SqliteRegistry& registry,
                             FolderJail folders, std::string base_name,
                             std::function<int64_t()> unix_seconds)
    : table_(table),
      backend_(backend),
      registry_(registry),
      folders_(std::move(folders)),
      base_name_(std::move(base_name)),
      unix_seconds_(std::move(unix_seconds)) {
  name_index_.Insert(base_name_);
}

std::vector<AdapterInfo> FolderCatalog::ListAfter(const std::string& name, size_t infos_max) const {
  std::shared_lock lock(names_mutex_);
  std::vector<AdapterInfo> infos;
  infos.reserve(std::min(names_.size(), infos_max));
  for (auto it = names_.upper_bound(name); it != names_.end() && infos.size() < infos_max; ++it) {
    infos.push_back(it->second);
  }
  return infos;
}

Result<AdapterInfo> FolderCatalog::Find(const std::string& name) const {
  std::shared_lock lock(names_mutex_);
  const auto it = names_.find(name);
  if (it != names_.end()) return it->second;
  return NotFoundError("there is no adapter '" + name + "'");
}

std::string FolderCatalog::NamesNear(const std::string& name, const NameFilter& allows) const {
  std::shared_lock lock(names_mutex_);
  const std::vector<std::string> candidates = name_index_.Candidates(name, allows);
  lock.unlock();
  return NearestNames(name, candidates);
}

AdapterState FolderCatalog::StateOf(const AdapterInfo& adapter) const {
  const AdapterPlace place = table_.PlaceOf(adapter.key());
  if (place == AdapterPlace::kResident) return AdapterState::kResident;
  if (place == AdapterPlace::kLoading) return AdapterState::kLoading;
  if (adapter.hash.empty()) return AdapterState::kUnread;
  return backend_.Has(adapter.hash) ? AdapterState::kHost : AdapterState::kFolder;
}

Result<AdapterInfo> FolderCatalog::Load(const AdapterLoad& load) {
  std::lock_guard load_lock(load_mutex_);
  // What was fetched is found again by its name.
  return LoadLocked(load, !load.owner.has_value() && load.fetched_revision.empty());
}

Result<AdapterInfo> FolderCatalog::LoadLocked(const AdapterLoad& load, bool remember) {
  RETURN_IF_ERROR(CheckName(load.name));
  ASSIGN_OR_RETURN(const Content content, ContentOf(load));
  const auto& [inside, hash] = content;
  Result<AdapterInfo> old = Find(load.name);
  const bool is_same = old.ok() && old->hash == hash;
  if (is_same && old->path == inside && table_.SetPath(hash, inside)) {
    if (!remember) return WithOrigin(*std::move(old), load);
    // A name from the folder was listed at start, for no tenant; now `load.tenant` asks for it.
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
  info.owner = load.owner;
  info.revision = load.fetched_revision;
  info.is_looked_up = load.is_looked_up;
  info.loaded_at = unix_seconds_();
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

AdapterInfo FolderCatalog::WithOrigin(AdapterInfo info, const AdapterLoad& load) {
  if (info.revision == load.fetched_revision && info.is_looked_up == load.is_looked_up) return info;
  info.revision = load.fetched_revision;
  info.is_looked_up = load.is_looked_up;
  SetName(info);
  return info;
}

Result<std::string> FolderCatalog::PlaceOf(const AdapterLoad& load) const {
  if (!load.fetched_revision.empty()) return folders_.ResolveFetched(load.path);
  return load.owner.has_value() ? folders_.ResolveLearned(load.path) : folders_.Resolve(load.path);
}

Result<FolderCatalog::Content> FolderCatalog::ContentOf(const AdapterLoad& load) const {
  Content content;
  Status failure = NotFoundError("it is not loaded, and no folder is named");
  if (!load.path.empty() || load.hash.empty()) {
    const Result<std::string> inside = PlaceOf(load);
    const Result<std::string> hash =
        inside.ok() ? backend_.HashAs(*inside, load.hash) : inside.status();
    failure = hash.status();
    if (hash.ok()) content = {*inside, *hash};
    if (hash.ok() && (load.hash.empty() || load.hash == *hash)) return content;
  }
  // What was read is what it was, whatever its folder has by now.
  std::shared_lock lock(names_mutex_);
  const auto names = names_of_key_.find(load.hash);
  if (!load.hash.empty() && names != names_of_key_.end() && !names->second.empty()) {
    return Content{names_.at(*names->second.begin()).path, load.hash};
  }
  RETURN_IF_ERROR(failure);
  return FailedPreconditionError(load.path + " has other content (" +
                                 content.hash.substr(0, kHashDigitsShown) + ") than it had (" +
                                 load.hash.substr(0, kHashDigitsShown) +
                                 "): load it again to serve the new content");
}

Result<AdapterInfo> FolderCatalog::MakeServable(const std::string& path, const std::string& hash) {
  {
    std::shared_lock lock(names_mutex_);
    const auto names = names_of_key_.find(hash);
    if (names != names_of_key_.end() && table_.SetPath(hash, path)) {
      AdapterInfo info = names_.at(*names->second.begin());
      info.path = path;
      return info;
    }
  }
  const std::string stamp = folders_.StampOf(path);
  ASSIGN_OR_RETURN(const AdapterFacts facts, backend_.ReadAs(path, hash));
  if (facts.hash != hash) {
    return Status(StatusCode::kAborted, path + " changed while it was read; load it again");
  }
  const Status published = table_.Publish({.path = path, .hash = hash, .key = hash});
  // A request's fetch may have read the same content first.
  if (published.code() == StatusCode::kAlreadyExists) {
    table_.SetPath(hash, path);
  } else {
    RETURN_IF_ERROR(published);
  }
  if (!facts.leaves_texts_out) RememberFolder(path, stamp, facts);
  AdapterInfo info;
  info.path = path;
  Describe(facts, &info);
  info.text = facts.text;
  WarnOfLinks(path);
  TellOfPickle(path);
  TellOfContent(facts, path);
  WarnOfTextsLeftOut(facts, path);
  return info;
}

void FolderCatalog::SetName(const AdapterInfo& info) {
  std::unique_lock lock(names_mutex_);
  const auto [it, is_new] = names_.try_emplace(info.name);
  if (is_new) name_index_.Insert(info.name);
  const AdapterInfo old = std::exchange(it->second, info);
  names_of_key_[info.key()].insert(info.name);
  UpdatePriority(info.key());
  if (is_new || old.key() == info.key()) return;
  DetachName(info.name, old.key(), old.path);
}

void FolderCatalog::EraseName(const std::string& name) {
  std::unique_lock lock(names_mutex_);
  const auto it = names_.find(name);
  // The entry as it is now: it may have been read since the caller looked.
  const AdapterInfo old = std::move(it->second);
  names_.erase(it);
  name_index_.Erase(name);
  DetachName(name, old.key(), old.path);
}

void FolderCatalog::DetachName(const std::string& name, const std::string& key,
                               const std::string& path) {
  std::set<std::string>& others = names_of_key_[key];
  others.erase(name);
  const Result<ContentLease> lease = table_.Acquire(key);
  if (!others.empty() && lease.ok() && table_.SourceOf(lease->content()).path == path) {
    table_.SetPath(key, names_.at(*others.begin()).path);
  }
  UpdatePriority(key);
  RetireIfNameless(key);
}

void FolderCatalog::SetPriorities(std::map<std::string, int32_t> priorities) {
  std::unique_lock lock(names_mutex_);
  priorities_ = std::move(priorities);
  for (const auto& [key, names] : names_of_key_) UpdatePriority(key);
}

// The host's memory knows contents by hash: an unread one has to be read first.
void FolderCatalog::UpdatePriority(const std::string& key) {
  std::optional<int32_t> highest;
  for (const std::string& name : names_of_key_[key]) {
    if (names_.at(name).hash.empty()) return;
    const auto it = priorities_.find(name);
    highest = std::max(highest, std::optional(it == priorities_.end() ? 0 : it->second));
  }
  backend_.SetPriority(key, highest.value_or(0));
}

void FolderCatalog::RetireIfNameless(const std::string& key) {
  const auto names = names_of_key_.find(key);
  if (names != names_of_key_.end()) {
    if (!names->second.empty()) return;
    names_of_key_.erase(names);
  }
  table_.Retire(key);
}

void FolderCatalog::OnRead(const std::string& key, const AdapterFacts& facts) {
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
      info.text = facts.text;
      path = info.path;
    }
    const std::set<std::string> renamed = std::move(names->second);
    names_of_key_.erase(names);
    names_of_key_[facts.hash].insert(renamed.begin(), renamed.end());
    UpdatePriority(facts.hash);
    // Under the lock: a caller that finds the new hash can ask for it.
    table_.Identify(key, facts.hash);
  }
  TellOfContent(facts, path);
  TellOfPickle(path);
  RememberFolder(path, stamp, facts);
}

// A registry that cannot be written costs the next start a reading, and nothing else.
void FolderCatalog::RememberFolder(const std::string& path, const std::string& stamp,
                                   const AdapterFacts& facts) {
  if (folders_.StampOf(path) != stamp) return;  // written while it was read
  if (folders_.IsLearned(path)) return;         // the learning jobs remember it
  const Status remembered =
      registry_.RememberFolder({.path = path,
                                .stamp = stamp,
                                .hash = facts.hash,
                                .base_model = facts.base_model,
                                .rank_max = facts.rank_max,
                                .bytes = facts.bytes,
                                .num_virtual_tokens = facts.num_virtual_tokens,
                                .changes_nothing = facts.changes_nothing,
                                .left_out = facts.left_out});
  if (!remembered.ok()) LOG_WARN("{}", remembered.message());
}

Status FolderCatalog::Remember(const AdapterInfo& info) {
  return registry_.Put(info, /*replace=*/true);
}

Status FolderCatalog::Unload(const std::string& name, const std::string& /*tenant*/) {
  std::lock_guard load_lock(load_mutex_);
  const bool is_listed = Find(name).ok();
  const Status forgotten = registry_.Remove(name);
  // Adapters of the folder were never remembered.
  if (!forgotten.ok() && forgotten.code() != StatusCode::kNotFound) return forgotten;
  // Remembered alone: its folder was gone, or had changed, when the server started.
  if (!is_listed) return forgotten.ok() ? OkStatus() : NoSuchAdapter(*this, name);
  EraseName(name);
  return OkStatus();
}

Status FolderCatalog::CheckName(const std::string& name) const {
  RETURN_IF_ERROR(CheckAdapterName(name));
  if (name == base_name_) {
    return InvalidArgumentError("'" + name + "' is the base model's name; choose another");
  }
  return OkStatus();
}

void FolderCatalog::WarnOfLinks(const std::string& path) const {
  for (const std::string& file : folders_.TextsOutside(path)) {
    LOG_WARN(
        "{}: {} is a link out of the adapters folder and is ignored; put the file itself there, or "
        "name the folder that it leads to with --adapters-root",
        path, file);
  }
}

const RegistryFolder* FolderCatalog::Recall(const std::string& path, const std::string& stamp) {
  const auto it = recalled_.find(path);
  return it != recalled_.end() && it->second.stamp == stamp ? &it->second : nullptr;
}

Status FolderCatalog::ListKnown(const std::string& name, const RegistryFolder& folder,
                                const std::string& tenant, std::optional<std::string> owner) {
  TellOfContent(folder, folder.path);
  WarnOfLinks(folder.path);
  ASSIGN_OR_RETURN(AdapterTextPtr text, backend_.ReadText(folder.path));
  if (!table_.Contains(folder.hash)) {
    RETURN_IF_ERROR(table_.Publish({.path = folder.path, .hash = folder.hash, .key = folder.hash}));
  }
  AdapterInfo info;
  info.name = name;
  info.path = folder.path;
  Describe(folder, &info);
  info.text = std::move(text);
  info.tenant = tenant;
  info.owner = std::move(owner);
  info.loaded_at = unix_seconds_();
  SetName(info);
  return OkStatus();
}

Status FolderCatalog::ListOwned(const AdapterInfo& info) {
  std::lock_guard load_lock(load_mutex_);
  RETURN_IF_ERROR(CheckName(info.name));
  ASSIGN_OR_RETURN(const std::string inside, folders_.ResolveLearned(info.path));
  return ListKnown(info.name,
                   {.path = inside,
                    .stamp = "",
                    .hash = info.hash,
                    .base_model = info.base_model,
                    .rank_max = info.rank_max,
                    .bytes = info.bytes,
                    .num_virtual_tokens = info.num_virtual_tokens},
                   info.tenant, info.owner);
}

Status FolderCatalog::ListUnread(const Folder& folder) {
  AdapterInfo info;
  info.name = folder.name;
  info.path = folder.path;
  WarnOfLinks(folder.path);
  ASSIGN_OR_RETURN(info.text, backend_.ReadText(folder.path));
  info.unread_key = "unread " + folder.path;
  info.loaded_at = unix_seconds_();
  // Two names may lead to one folder.
  if (!table_.Contains(info.unread_key)) {
    RETURN_IF_ERROR(table_.Publish({.path = folder.path, .hash = "", .key = info.unread_key}));
  }
  SetName(info);
  std::unique_lock lock(names_mutex_);
  unread_stamps_[info.unread_key] = folder.stamp;
  return OkStatus();
}

Result<FolderCatalog::StartReport> FolderCatalog::RestoreFromRegistry() {
  std::lock_guard load_lock(load_mutex_);
  ASSIGN_OR_RETURN(const std::vector<AdapterInfo> entries, registry_.List());
  ASSIGN_OR_RETURN(std::vector<RegistryFolder> folders, registry_.ListFolders());
  for (RegistryFolder& folder : folders) recalled_[folder.path] = std::move(folder);
  StartReport report;
  for (const AdapterInfo& entry : entries) {
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
Status FolderCatalog::RestoreEntry(const AdapterInfo& entry) {
  RETURN_IF_ERROR(CheckName(entry.name));
  ASSIGN_OR_RETURN(const std::string inside, folders_.Resolve(entry.path));
  const RegistryFolder* known = Recall(inside, folders_.StampOf(inside));
  if (known != nullptr && known->hash == entry.hash) {
    return ListKnown(entry.name, *known, entry.tenant);
  }
  ASSIGN_OR_RETURN(const std::string hash, backend_.HashAs(inside, entry.hash));
  if (hash != entry.hash) {
    return FailedPreconditionError("its content is not what was loaded under this name (" +
                                   entry.hash.substr(0, kHashDigitsShown) +
                                   "); load it again to serve the new content");
  }
  ASSIGN_OR_RETURN(const AdapterInfo info,
                   LoadLocked({.name = entry.name, .path = inside, .tenant = entry.tenant},
                              /*remember=*/false));
  if (info.hash == entry.hash) return OkStatus();
  LOG_INFO(
      "adapter '{}' was remembered by a version that knew no texts beside weights, or with another "
      "--adapter-text; it is loaded as this server takes it",
      entry.name);
  const Status remembered = Remember(info);  // else the next start does this again
  if (!remembered.ok()) LOG_WARN("{}", remembered.message());
  return OkStatus();
}

// The folders with free names: neither taken, nor remembered for another content.
Result<std::vector<FolderCatalog::Folder>> FolderCatalog::FindFolders(StartReport* report) const {
  ASSIGN_OR_RETURN(FolderJail::Found found, folders_.Find());
  for (const FolderJail::Refused& refused : found.refused) {
    LOG_WARN("adapter '{}' is not served: {}", refused.name, refused.why.message());
    ++report->num_skipped;
  }
  std::shared_lock lock(names_mutex_);
  std::erase_if(found.folders, [this](const Folder& folder) {
    return names_.contains(folder.name) || not_restored_.contains(folder.name);
  });
  return std::move(found.folders);
}

// A registry that cannot be written keeps them until the next start.
void FolderCatalog::ForgetDeletedFolders() {
  std::vector<std::string> deleted;
  for (const auto& [path, folder] : recalled_) {
    if (folders_.IsDeleted(path)) deleted.push_back(path);
  }
  if (deleted.empty()) return;
  const Status forgotten = registry_.ForgetFolders(deleted);
  if (forgotten.ok()) {
    LOG_INFO("the registry forgets {} folders that were deleted", deleted.size());
  } else {
    LOG_WARN("{}", forgotten.message());
  }
}

Result<FolderCatalog::StartReport> FolderCatalog::LoadFolder(int64_t read_bytes_max) {
  std::lock_guard load_lock(load_mutex_);
  StartReport report;
  ASSIGN_OR_RETURN(const std::vector<Folder> folders, FindFolders(&report));
  int64_t bytes = 0;
  for (const Folder& folder : folders) bytes += folder.weight_bytes;
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

std::string FolderCatalog::NameOf(const std::string& key) const {
  std::shared_lock lock(names_mutex_);
  const auto names = names_of_key_.find(key);
  if (names != names_of_key_.end() && !names->second.empty()) return *names->second.begin();
  // An unread adapter's key has its folder, which readers of metrics must not see: it is cut there.
  return key.substr(0, std::min(kHashDigitsShown, key.find(' ')));
}

}  // namespace graft
