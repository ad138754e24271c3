// EngineAdapterCatalog: names of adapters over the slots that hold their content. Loading goes
// jail -> hash -> (a slot that has this hash, or a new one) -> name; a failure at any point leaves
// everything as it was. Loads take turns; Find and List never wait for one. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "cache/adapter_table.h"
#include "registry/adapter_registry.h"
#include "request/adapter_catalog.h"
#include "step/executor.h"

namespace graft {

class EngineAdapterCatalog : public AdapterCatalog {
 public:
  // Everything is borrowed. Paths outside `adapters_dir` are refused; "": every load is. No adapter
  // may be called `base_name`.
  EngineAdapterCatalog(AdapterTable& table, AdapterBackend& backend, AdapterRegistry& registry,
                       std::string adapters_dir, std::string base_name);

  std::vector<AdapterInfo> List() const override;
  Result<AdapterInfo> Find(const std::string& name) const override;
  // Loads by this call are remembered in the registry.
  Result<AdapterInfo> Load(const std::string& name, const std::string& path, bool replace) override;
  Status Unload(const std::string& name) override;

  struct StartReport {
    int32_t num_loaded = 0;
    int32_t num_skipped = 0;
  };
  // Loads again what the registry remembers. An adapter that vanished, changed or fails is logged
  // with the reason and skipped.
  Result<StartReport> RestoreFromRegistry();
  // Loads every sub-folder of adapters_dir that holds an adapter_config.json, under its own name
  // unless the name is taken. One that fails is logged with the reason and skipped.
  Result<StartReport> LoadFolder();

  // The name that an adapter's hash goes by, for metric labels; the hash's first digits if none.
  std::string NameOf(const std::string& hash) const;

 private:
  Result<AdapterInfo> LoadLocked(const std::string& name, const std::string& path, bool replace,
                                 bool remember);
  // The content of `path` in a slot, whether it was there before or is loaded now.
  Result<AdapterInfo> MakeServable(const std::string& path, const std::string& hash);
  Status Remember(const AdapterInfo& info);
  // No name leads to `hash` any more: requests in flight finish, then its slot is free.
  void RetireIfNameless(const std::string& hash);
  Status CheckName(const std::string& name) const;

  AdapterTable& table_;
  AdapterBackend& backend_;
  AdapterRegistry& registry_;
  const std::string adapters_dir_;
  const std::string base_name_;

  std::mutex load_mutex_;  // taken before names_mutex_; one load or unload at a time
  mutable std::shared_mutex names_mutex_;
  std::map<std::string, AdapterInfo> names_;
};

}  // namespace graft
