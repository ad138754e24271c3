// The adapters that a cluster's runners have, as one AdapterCatalog. A runner that is away is
// believed to have what it had. Thread-safe.
#pragma once

#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

#include "request/adapter_catalog.h"
#include "rpc/adapter_proto.h"

namespace graft {

class RunnerCatalog : public AdapterCatalog {
 public:
  explicit RunnerCatalog(std::string base_model) : base_model_(std::move(base_model)) {}

  // What the runner has, in place of what it had. Where runners have other content under one name,
  // the first runner's is served.
  void SetRunner(size_t runner, const std::vector<ListedAdapter>& adapters);
  // Whether any runner has ever been heard to have it.
  bool HasContent(const std::string& hash) const;
  // The largest rank of the content; 0: no runner has it.
  int32_t RankOf(const std::string& hash) const;
  // A name that clients know the content by; "": none.
  std::string NameOf(const std::string& hash) const;

  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t infos_max) const override;
  // kUnavailable instead of kNotFound until a first runner has told what it has.
  Result<AdapterInfo> Find(const std::string& name) const override;
  std::string NamesNear(const std::string& name, const NameFilter& allows) const override;
  AdapterState StateOf(const AdapterInfo& adapter) const override;
  // kFailedPrecondition: adapters come from the runners' folders.
  Result<AdapterInfo> Load(const AdapterLoad& load) override;
  Status Unload(const std::string& name, const std::string& /*tenant*/) override;

 private:
  struct Content {
    int32_t rank = 0;  // the largest
    std::string name;
  };

  const std::string base_model_;
  mutable std::shared_mutex mutex_;
  std::map<size_t, std::vector<ListedAdapter>> by_runner_;
  std::map<std::string, ListedAdapter> by_name_;  // merged
  std::map<std::string, Content> contents_;       // by hash
};

}  // namespace graft
