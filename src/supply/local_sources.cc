#include "supply/local_sources.h"

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/log.h"

namespace graft {

LocalSources::LocalSources(SupplyOptions options, std::vector<std::unique_ptr<SupplyRoute>> routes)
    : options_(std::move(options)), routes_(std::move(routes)) {}

void LocalSources::SetIsServed(std::function<bool(const std::string& path)> is_served) {
  is_served_ = std::move(is_served);
}

std::vector<std::string> LocalSources::names() const {
  std::vector<std::string> names;
  for (const SupplySource& source : options_.sources) names.push_back(source.name);
  return names;
}

Result<size_t> LocalSources::Find(const std::string& source) const {
  for (size_t i = 0; i < options_.sources.size(); ++i) {
    if (options_.sources[i].name == source) return i;
  }
  return FailedPreconditionError("this runner has no --source '" + source + "'");
}

Result<SourceFolder> LocalSources::Fetch(const SourceOrder& order,
                                         const std::atomic<bool>& is_cancelled) {
  ASSIGN_OR_RETURN(const size_t idx, Find(order.source));
  const SupplySource& source = options_.sources[idx];
  const std::string name = order.source + "/" + order.rest;
  if (!routes_[idx]->IsName(order.rest) || !IsAllowed(options_, name)) {
    return FailedPreconditionError("no pattern of this runner's --allow lets '" + name +
                                   "' through: give it the frontends' own");
  }
  if (source.is_hub && order.has_tenant_tokens != options_.has_tenant_tokens) {
    return FailedPreconditionError(
        "a frontend and this runner are not of one mind about tenants' tokens: start both with "
        "--source-tokens, or none");
  }
  const SupplyRights rights = {
      .token = order.is_tenants ? TokenOfTenant(options_, source, order.tenant) : nullptr,
      .tenant = order.tenant};
  ASSIGN_OR_RETURN(SourceFolder folder,
                   routes_[idx]->Fetch(order.rest, order.revision, rights, is_cancelled));
  LOG_INFO("'{}', revision {}, is fetched for the cluster: {} bytes", name, folder.revision,
           folder.fetched_bytes);
  return folder;
}

Status LocalSources::Drop(const std::string& source, const std::string& path) {
  ASSIGN_OR_RETURN(const size_t idx, Find(source));
  // Whatever a caller says: nothing else is removed than what lies where this runner fetches to.
  ASSIGN_OR_RETURN(const std::string inside, FileJail({routes_[idx]->root()}).Resolve(path));
  if (is_served_ && is_served_(inside)) {
    return FailedPreconditionError("an adapter of " + inside + " is served");
  }
  return routes_[idx]->Remove(inside);
}

}  // namespace graft
