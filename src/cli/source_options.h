// Sources of adapters for a server: the flags, and what is made of them. Main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "options/command.h"
#include "request/adapter_catalog.h"
#include "supply/adapter_supply.h"

namespace graft {

struct SourceFlags {
  std::vector<std::string> sources;
  std::vector<std::string> allow;
  std::string tokens_file;
  double gib = 0.0;
};

OptionGroup SourceOptionGroup(SourceFlags& flags);

// Sources that were read from the flags and the environment, before there is a catalog.
class PreparedSources {
 public:
  // Errors of SupplyOptionsOf and of the environment's settings.
  static Result<PreparedSources> Read(const SourceFlags& flags);

  // Folders that adapters are read from, each there already.
  std::vector<std::string> roots() const;
  // Null where there is no source. Once at most.
  std::unique_ptr<AdapterSupply> Start(AdapterCatalog& catalog);

 private:
  SupplyOptions options_;
  std::vector<std::unique_ptr<SupplyRoute>> routes_;
};

}  // namespace graft
