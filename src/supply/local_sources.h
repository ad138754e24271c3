// LocalSources: the sources of a cluster's runner, which fetches for frontends. It has the same
// flags as they: its own patterns say what it fetches, and its own files have the tokens.
// Thread-safe; calls block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "request/source_fetcher.h"
#include "supply/supply_options.h"
#include "supply/supply_route.h"

namespace graft {

class LocalSources : public SourceFetcher {
 public:
  // `routes`: one for each of options.sources, in their order.
  LocalSources(SupplyOptions options, std::vector<std::unique_ptr<SupplyRoute>> routes);

  // Whether an adapter of this folder is served here. Before any other call.
  void SetIsServed(std::function<bool(const std::string& path)> is_served);

  Result<SourceFolder> Fetch(const SourceOrder& order,
                             const std::atomic<bool>& is_cancelled) override;
  Status Drop(const std::string& source, const std::string& path) override;
  std::vector<std::string> names() const override;

 private:
  Result<size_t> Find(const std::string& source) const;

  const SupplyOptions options_;
  const std::vector<std::unique_ptr<SupplyRoute>> routes_;
  std::function<bool(const std::string&)> is_served_;
};

}  // namespace graft
