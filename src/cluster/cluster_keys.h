// Where a cluster's records lie in etcd. Everything below kClusterRoot is what all frontends
// mirror; the audit log and what is known of learning lie beside it. Names are escaped, so that
// none is another's prefix. Pure functions.
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

std::string ClusterKey();
std::string BaseKey();
std::string LeaderKey();
// What the leader has lent: slices of keys' budgets.
std::string SlicesKey();
// How many runners the leader wants.
std::string HintKey();
// Stands once the cluster has had keys, also when the last is taken away: it asks for one.
std::string KeysRequiredKey();
inline constexpr char kKeysRequired[] = "true";  // its value: that it is there is what counts
std::string RunnerKey(const std::string& id);
std::string FrontendKey(const std::string& id);
// Stands where the runner is to go.
std::string LeavingKey(const std::string& id);
std::string AdapterKey(const std::string& name);
// All versions of a name.
std::string VersionsKey(const std::string& name);
std::string VersionKey(const std::string& name, int64_t version);
std::string TenantKey(const std::string& name);
std::string ApiKeyKey(const std::string& digest);

// Which folder the cluster's learning has.
std::string LearningFolderKey();
// Written by every change that a tenant's limits hold for.
std::string LearningTenantKey(const std::string& tenant);
std::string LearningTurnKey(const std::string& tenant);
// All of a tenant's, with "" for the id, or one.
std::string LearningFileKey(const std::string& tenant, const std::string& id);
std::string LearningJobKey(const std::string& tenant, const std::string& id);
// Stands where its owner wants the job to end.
std::string JobCancelKey(const std::string& tenant, const std::string& id);
// The last figures that it told of itself.
std::string JobProgressKey(const std::string& tenant, const std::string& id);
// All of a job's, or with an id of "" all of a tenant's jobs'.
std::string JobEventsKey(const std::string& tenant, const std::string& id);
std::string JobCheckpointsKey(const std::string& tenant, const std::string& id);
// One of these, sorted by its number.
std::string NumberedKey(const std::string& prefix, int64_t number);
std::string OpenJobKey(const std::string& id);
std::string JobClaimKey(const std::string& id);
// Files of all tenants.
std::string LearningFilesPrefix();
// All that is a tenant's below a prefix of its own.
std::vector<std::string> LearningPrefixesOf(const std::string& tenant);

bool HasPrefix(const std::string& key, std::string_view prefix);
// The name in a key below `prefix`.
std::string NameInKey(const std::string& key, std::string_view prefix);

}  // namespace graft
