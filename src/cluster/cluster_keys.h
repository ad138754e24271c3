// The keys of a cluster's records in etcd. All frontends mirror everything below kClusterRoot. The
// audit log and the records of learning lie beside it. Names are escaped, so that no name is a
// prefix of another. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

inline constexpr std::string_view kClusterRoot = "graft/";
inline constexpr std::string_view kRunnersPrefix = "graft/runners/";
inline constexpr std::string_view kFrontendsPrefix = "graft/frontends/";
inline constexpr std::string_view kAdaptersPrefix = "graft/adapters/";
inline constexpr std::string_view kVersionsPrefix = "graft/versions/";
inline constexpr std::string_view kTenantsPrefix = "graft/tenants/";
inline constexpr std::string_view kApiKeysPrefix = "graft/keys/";
inline constexpr std::string_view kLeavingPrefix = "graft/leaving/";
inline constexpr std::string_view kAuditPrefix = "graft-audit/";
// Learning: the tenants' last turns, jobs that are not finished, and which runner has claimed each.
inline constexpr std::string_view kLearningTurnsPrefix = "graft-learning/turns/";
inline constexpr std::string_view kOpenJobsPrefix = "graft-learning/open/";
inline constexpr std::string_view kJobClaimsPrefix = "graft-learning/claims/";

std::string KeyBelow(std::string_view prefix, const std::string& name);
// A tenant's record of learning; `kind`: "files/".
std::string KeyOfTenant(const std::string& kind, const std::string& tenant, const std::string& id);
// One of those below `prefix` that are sorted by their numbers.
std::string NumberedKey(const std::string& prefix, int64_t number);

inline std::string ClusterKey() { return "graft/cluster"; }
inline std::string BaseKey() { return "graft/base"; }
inline std::string LeaderKey() { return "graft/leader"; }
// What the leader has lent: slices of keys' budgets.
inline std::string SlicesKey() { return "graft/slices"; }
// How many runners the leader wants.
inline std::string HintKey() { return "graft/hint"; }
// Stands once the cluster has had keys, also when the last is taken away: it asks for one.
inline std::string KeysRequiredKey() { return "graft/keys-required"; }
inline constexpr char kKeysRequired[] = "true";  // its value: that it is there is what counts
inline std::string RunnerKey(const std::string& id) { return KeyBelow(kRunnersPrefix, id); }
inline std::string FrontendKey(const std::string& id) { return KeyBelow(kFrontendsPrefix, id); }
// Stands where the runner is to go.
inline std::string LeavingKey(const std::string& id) { return KeyBelow(kLeavingPrefix, id); }
inline std::string AdapterKey(const std::string& name) { return KeyBelow(kAdaptersPrefix, name); }
// All versions of a name.
inline std::string VersionsKey(const std::string& name) {
  return KeyBelow(kVersionsPrefix, name) + "/";
}
inline std::string VersionKey(const std::string& name, int64_t version) {
  return NumberedKey(VersionsKey(name), version);
}
inline std::string TenantKey(const std::string& name) { return KeyBelow(kTenantsPrefix, name); }
inline std::string ApiKeyKey(const std::string& digest) { return KeyBelow(kApiKeysPrefix, digest); }

// Which folder the cluster's learning has.
inline std::string LearningFolderKey() { return "graft-learning/folder"; }
// Written by every change that a tenant's limits hold for.
inline std::string LearningTenantKey(const std::string& tenant) {
  return KeyBelow("graft-learning/tenants/", tenant);
}
inline std::string LearningTurnKey(const std::string& tenant) {
  return KeyBelow(kLearningTurnsPrefix, tenant);
}
// All of a tenant's, with "" for the id, or one.
inline std::string LearningFileKey(const std::string& tenant, const std::string& id) {
  return KeyOfTenant("files/", tenant, id);
}
inline std::string LearningJobKey(const std::string& tenant, const std::string& id) {
  return KeyOfTenant("jobs/", tenant, id);
}
// Stands where its owner wants the job to end.
inline std::string JobCancelKey(const std::string& tenant, const std::string& id) {
  return KeyOfTenant("cancelled/", tenant, id);
}
// The last figures that it told of itself.
inline std::string JobProgressKey(const std::string& tenant, const std::string& id) {
  return KeyOfTenant("progress/", tenant, id);
}
// All of a job's, or with an id of "" all of a tenant's jobs'.
inline std::string JobEventsKey(const std::string& tenant, const std::string& id) {
  return KeyOfTenant("events/", tenant, id) + (id.empty() ? "" : "/");
}
inline std::string JobCheckpointsKey(const std::string& tenant, const std::string& id) {
  return KeyOfTenant("checkpoints/", tenant, id) + (id.empty() ? "" : "/");
}
inline std::string OpenJobKey(const std::string& id) { return KeyBelow(kOpenJobsPrefix, id); }
inline std::string JobClaimKey(const std::string& id) { return KeyBelow(kJobClaimsPrefix, id); }
// Files of all tenants.
inline std::string LearningFilesPrefix() { return "graft-learning/files/"; }
// All that is a tenant's below a prefix of its own.
std::vector<std::string> LearningPrefixesOf(const std::string& tenant);

bool HasPrefix(const std::string& key, std::string_view prefix);
// The name in a key below `prefix`.
std::string NameInKey(const std::string& key, std::string_view prefix);

}  // namespace graft
