// The adapters of a simulated runner: names and contents, without bytes. Any content can be loaded.
// One thread at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "request/adapter_catalog.h"

namespace graft {

class SimCatalog : public AdapterCatalog {
 public:
  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t infos_max) const override {
    std::vector<AdapterInfo> infos;
    for (auto it = by_name_.upper_bound(name); it != by_name_.end() && infos.size() < infos_max;
         ++it) {
      infos.push_back(it->second);
    }
    return infos;
  }
  Result<AdapterInfo> Find(const std::string& name) const override {
    const auto it = by_name_.find(name);
    if (it != by_name_.end()) return it->second;
    return NotFoundError("there is no adapter '" + name + "'");
  }
  std::string NamesNear(const std::string&, const NameFilter&) const override { return ""; }
  AdapterState StateOf(const AdapterInfo&) const override { return AdapterState::kHost; }
  Result<AdapterInfo> Load(const AdapterLoad& load) override {
    AdapterInfo& info = by_name_[load.name];
    info.name = load.name;
    info.hash = load.hash;
    info.path = load.path;
    info.tenant = load.tenant;
    return info;
  }
  Status Unload(const std::string& name, const std::string&) override {
    return by_name_.erase(name) > 0 ? OkStatus() : NotFoundError("there is no " + name);
  }

 private:
  std::map<std::string, AdapterInfo> by_name_;
};

}  // namespace graft
