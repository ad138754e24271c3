// EtcdRegistry: a cluster's adapters with their versions, its tenants and its keys, in etcd.
// Changes hold for all frontends and runners. If two changes race for a name, one of them wins.
// While etcd cannot be reached, every change is refused with the reason. Calls block as
// EtcdClient's do. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "cluster/cluster_records.h"
#include "cluster/cluster_store.h"
#include "registry/adapter_registry.h"

namespace graft {

// The newest versions of a name are kept, at most so many.
inline constexpr size_t kVersionsKept = 16;

class EtcdRegistry : public AdapterRegistry {
 public:
  // `store` must outlive it; `by` goes into the audit log.
  EtcdRegistry(ClusterStore& store, std::string by);

  // Another content makes a new version.
  Status Put(const AdapterInfo& entry, bool replace) override;
  // With all its versions.
  Status Remove(const std::string& name) override { return RemoveFor(name, ""); }
  // Asked for by this tenant, says the audit.
  Status RemoveFor(const std::string& name, const std::string& tenant);
  Result<std::vector<AdapterInfo>> List() const override;

  // Oldest first; kNotFound.
  Result<std::vector<AdapterVersion>> Versions(const std::string& name) const;
  // The name leads to what it led to then. kNotFound, naming the versions that are kept.
  Result<AdapterVersion> RollBack(const std::string& name, int64_t version,
                                  const std::string& tenant);

  Status SetTenant(const TenantRecord& tenant);
  // The entries of a keys file, which take the place of all there are. Each is an object with
  // "key_sha256" and "tenant"; a plain "key" is refused: it is not to be kept.
  Status SetKeys(const Json& entries);

  struct Forgotten {
    int32_t num_records = 0;  // names, versions, keys, the weight, files, jobs
  };
  // Removes all that is the tenant's: adapters, versions, keys, its weight, files and jobs of
  // learning. kNotFound: nothing was.
  Result<Forgotten> ForgetTenant(const std::string& tenant);

 private:
  struct Known;  // of one name

  Result<Known> Look(const std::string& name) const;
  Result<std::vector<EtcdKeyValue>> FindOf(const std::string& tenant) const;
  // Tries once; false: another process was faster.
  Result<bool> TryPut(const Known& known, const AdapterVersion& next, const std::string& change);

  ClusterStore& store_;
  const std::string by_;
};

}  // namespace graft
