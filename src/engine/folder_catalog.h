// FolderCatalog: names of adapters for the contents that requests may ask for. A load
// resolves the path inside the jail, computes the hash, finds the content of this hash or reads and
// checks a new one, and then sets the name. A failure at any point leaves everything as it was.
// Folders found at start may be listed without being read; a key then stands for the hash until a
// request asks for the adapter. Loads take turns; Find and List never wait for one. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/nearest_names.h"
#include "cache/content_table.h"
#include "engine/folder_jail.h"
#include "registry/sqlite_registry.h"
#include "request/adapter_catalog.h"
#include "step/adapter_loader.h"

namespace graft {

class FolderCatalog : public AdapterCatalog {
 public:
  // Everything is borrowed. `folders` says what may be loaded. No adapter may be called
  // `base_name`. `unix_seconds` is the wall clock of AdapterInfo::loaded_at; any thread asks it.
  FolderCatalog(ContentTable& table, AdapterBackend& backend, SqliteRegistry& registry,
                FolderJail folders, std::string base_name,
                std::function<int64_t()> unix_seconds = UnixTimeSeconds);

  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t infos_max) const override;
  Result<AdapterInfo> Find(const std::string& name) const override;
  std::string NamesNear(const std::string& name, const NameFilter& allows) const override;
  AdapterState StateOf(const AdapterInfo& adapter) const override;
  // The registry remembers what this call loads, also where the adapter was listed already.
  Result<AdapterInfo> Load(const AdapterLoad& load) override;
  Status Unload(const std::string& name, const std::string& /*tenant*/) override;

  // The contents of these names, now and after later loads, have these priorities in the host's
  // memory. A content of several names has the highest of their priorities.
  void SetPriorities(std::map<std::string, int32_t> priorities);

  struct StartReport {
    int32_t num_loaded = 0;
    int32_t num_listed = 0;  // without being read
    int32_t num_skipped = 0;
  };
  // Lists again what the registry remembers. An adapter that vanished or changed is logged with the
  // reason and skipped. Folders that have the remembered stamp are not read.
  Result<StartReport> RestoreFromRegistry();
  // Lists every adapter that FolderJail finds, under its own name unless the name is taken, or
  // the registry remembers it for another content. If the weights of all of them are at most
  // `read_bytes_max` (0: never), they are read and checked. An adapter that fails, or that may not
  // be read, is logged with the reason and skipped. The registry's entries of folders that were
  // deleted are removed.
  Result<StartReport> LoadFolder(int64_t read_bytes_max);

  // Lists an adapter that was learned here, without reading it: its facts are known.
  Status ListOwned(const AdapterInfo& info);

  // A folder that was listed unread has been read: its names have this hash from now on.
  void OnRead(const std::string& key, const AdapterFacts& facts);

  // The name that an adapter's hash or key goes by, for metric labels; its first digits if none.
  std::string NameOf(const std::string& key) const;

 private:
  using Folder = FolderJail::Folder;

  Result<AdapterInfo> LoadLocked(const AdapterLoad& load, bool remember);
  // A folder, its links resolved, and the hash of what is in it.
  struct Content {
    std::string path;
    std::string hash;
  };
  Result<std::string> PlaceOf(const AdapterLoad& load) const;
  Result<Content> ContentOf(const AdapterLoad& load) const;
  // A newer revision may have the same content in the same folder.
  AdapterInfo WithOrigin(AdapterInfo info, const AdapterLoad& load);
  // The content of `path` published, whether it was there before or is read now.
  Result<AdapterInfo> MakeServable(const std::string& path, const std::string& hash);
  // The folders with free names; the report counts the others, the log says why.
  Result<std::vector<Folder>> FindFolders(StartReport* report) const;
  void ForgetDeletedFolders();
  Status ListUnread(const Folder& folder);
  // What the registry knows of a folder that has not been written since; null if nothing.
  const RegistryFolder* Recall(const std::string& path, const std::string& stamp);
  Status ListKnown(const std::string& name, const RegistryFolder& folder, const std::string& tenant,
                   std::optional<std::string> owner = std::nullopt);
  void WarnOfLinks(const std::string& path) const;
  void RememberFolder(const std::string& path, const std::string& stamp, const AdapterFacts& facts);
  Status Remember(const AdapterInfo& info);
  Status RestoreEntry(const AdapterInfo& entry);
  // These take names_mutex_, and let go of what the name led to before.
  void SetName(const AdapterInfo& info);
  void EraseName(const std::string& name);
  // These functions need names_mutex_ held exclusively: OnRead must not give a content another key
  // between a look at the names and what follows from it.
  // `name` no longer leads to the content `key`. The content is retired with its last name, and no
  // longer read from the folder of a name that is gone.
  void DetachName(const std::string& name, const std::string& key, const std::string& path);
  // To be called once the names that lead to `key` have changed.
  void UpdatePriority(const std::string& key);
  // Without a name, requests in flight finish, then the content is forgotten.
  void RetireIfNameless(const std::string& key);
  Status CheckName(const std::string& name) const;

  ContentTable& table_;
  AdapterBackend& backend_;
  SqliteRegistry& registry_;
  const FolderJail folders_;
  const std::string base_name_;
  const std::function<int64_t()> unix_seconds_;

  std::mutex load_mutex_;  // taken before names_mutex_; one load or unload at a time
  std::unordered_map<std::string, RegistryFolder> recalled_;    // by path, while starting
  std::set<std::string> not_restored_;                          // names, while starting
  std::unordered_map<std::string, std::string> unread_stamps_;  // by key, when listed
  mutable std::shared_mutex names_mutex_;                       // the rest, and unread_stamps_
  std::map<std::string, AdapterInfo> names_;
  NameIndex name_index_;                       // of names_ and base_name_
  std::map<std::string, int32_t> priorities_;  // by name
  std::unordered_map<std::string, std::set<std::string>> names_of_key_;
};

}  // namespace graft
