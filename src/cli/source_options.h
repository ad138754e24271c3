// Sources of adapters for a server: the flags, and what is made of them. Main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "options/command.h"
#include "request/adapter_catalog.h"
#include "supply/adapter_supply.h"
#include "supply/local_sources.h"

namespace graft {

struct SourceFlags {
  std::vector<std::string> sources;
  std::vector<std::string> allow;
  std::string tokens_file;
  double gib = 0.0;
};

OptionGroup SourceOptionGroup(SourceFlags& flags);
// Those of a runner, which fetches what frontends ask for and keeps no list.
std::vector<Option> RunnerSourceRows(SourceFlags& flags);

// Sources that were read from the flags and the environment, before there is a catalog.
class PreparedSources {
 public:
  // Errors of SupplyOptionsOf and of the environment's settings.
  static Result<PreparedSources> Read(const SourceFlags& flags);

  // Folders that adapters are read from, each there already.
  std::vector<std::string> roots() const;
  bool empty() const { return routes_.empty(); }
  // Null where there is no source. Once at most, either of these. `fetcher`: machines that fetch in
  // place of this one; null: none do.
  std::unique_ptr<AdapterSupply> Start(AdapterCatalog& catalog, SourceFetcher* fetcher = nullptr);
  std::unique_ptr<LocalSources> ForOthers();

 private:
  SupplyOptions options_;
  std::vector<std::unique_ptr<SupplyRoute>> routes_;
};

}  // namespace graft
