// SupplyRoute: one source, as AdapterSupply asks it: which revision a name is at, and its folder.
// Both calls block; any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/status.h"
#include "request/source_fetcher.h"
#include "sources/hub_settings.h"
#include "sources/s3_settings.h"
#include "supply/supply_options.h"

namespace graft {

// By which rights a source is asked.
struct SupplyRights {
  const Secret* token = nullptr;  // a tenant's; null: the operator's own
  std::string tenant = {};        // that the token is of
};

class SupplyRoute {
 public:
  virtual ~SupplyRoute() = default;
  // The revision that `rest`, the name without the source's, is at. By a tenant's token: it was let
  // read the adapter's bytes just now. kNotFound, kPermissionDenied: there is none for this token.
  virtual Result<std::string> RevisionOf(const std::string& rest, const SupplyRights& rights,
                                         const std::atomic<bool>& is_cancelled) = 0;
  // kNotFound and kPermissionDenied as above. kUnimplemented: what is there is no adapter that is
  // read. kOutOfRange: it is larger than may be. Every other failure is the source's, the way's or
  // the disk's.
  virtual Result<SourceFolder> Fetch(const std::string& rest, const std::string& revision,
                                     const SupplyRights& rights,
                                     const std::atomic<bool>& is_cancelled) = 0;
  // Whether `rest` may be a name there.
  virtual bool IsName(const std::string& rest) const = 0;
  // Whether a folder that Fetch has given still has all that is read of it.
  virtual bool IsThere(const std::string& folder) const = 0;
  // Removes a folder that Fetch has given, and what belongs to it alone. kFailedPrecondition: it is
  // served.
  virtual Status Remove(const std::string& folder) = 0;
  // Where fetched folders lie.
  virtual std::string root() const = 0;
};

// `bytes_max`: of one adapter's files; 0: no bound.
std::unique_ptr<SupplyRoute> MakeHubRoute(HubSettings settings, int64_t bytes_max = 0);
std::unique_ptr<SupplyRoute> MakeS3Route(S3Settings settings, S3Name store, int64_t bytes_max = 0);
// `asked` says which revision a name is at, and other machines fetch it. `source`: its name there.
// `fetcher` is borrowed.
std::unique_ptr<SupplyRoute> MakeRemoteRoute(std::unique_ptr<SupplyRoute> asked, std::string source,
                                             bool has_tenant_tokens, SourceFetcher& fetcher);

}  // namespace graft
