// Where a cluster's records lie in etcd. Everything below kClusterRoot is what all frontends
// mirror; the audit log lies beside it. Names are escaped, so that none is another's prefix. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

std::string ClusterKey();
std::string BaseKey();
std::string LeaderKey();
// What the leader has lent: slices of keys' budgets.
std::string SlicesKey();
// How many runners the leader wants.
std::string HintKey();
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

bool HasPrefix(const std::string& key, std::string_view prefix);
// The name in a key below `prefix`.
std::string NameInKey(const std::string& key, std::string_view prefix);

}  // namespace graft
