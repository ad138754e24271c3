#include "cluster/cluster_keys.h"

#include <cstdio>
#include <cstdlib>

namespace graft {
namespace {

std::string Escaped(const std::string& name) {
  std::string escaped;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || c == '%' || byte < 0x20 || byte >= 0x7f) {
      char digits[4];
      std::snprintf(digits, sizeof(digits), "%%%02X", byte);
      escaped += digits;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Below(std::string_view prefix, const std::string& name) {
  return std::string(prefix) + Escaped(name);
}

std::string OfTenant(const std::string& kind, const std::string& tenant, const std::string& id) {
  return Below("graft-learning/" + kind, tenant) + "/" + Escaped(id);
}

}  // namespace

std::string ClusterKey() { return "graft/cluster"; }
std::string BaseKey() { return "graft/base"; }
std::string LeaderKey() { return "graft/leader"; }
std::string SlicesKey() { return "graft/slices"; }
std::string HintKey() { return "graft/hint"; }
std::string KeysRequiredKey() { return "graft/keys-required"; }
std::string RunnerKey(const std::string& id) { return Below(kRunnersPrefix, id); }
std::string FrontendKey(const std::string& id) { return Below(kFrontendsPrefix, id); }
std::string LeavingKey(const std::string& id) { return Below(kLeavingPrefix, id); }
std::string AdapterKey(const std::string& name) { return Below(kAdaptersPrefix, name); }
std::string VersionsKey(const std::string& name) { return Below(kVersionsPrefix, name) + "/"; }
std::string TenantKey(const std::string& name) { return Below(kTenantsPrefix, name); }
std::string ApiKeyKey(const std::string& digest) { return Below(kApiKeysPrefix, digest); }

std::string NumberedKey(const std::string& prefix, int64_t number) {
  char digits[24];
  std::snprintf(digits, sizeof(digits), "%010lld", static_cast<long long>(number));
  return prefix + digits;
}

std::string VersionKey(const std::string& name, int64_t version) {
  return NumberedKey(VersionsKey(name), version);
}

std::string LearningFolderKey() { return "graft-learning/folder"; }
std::string LearningTenantKey(const std::string& tenant) {
  return Below("graft-learning/tenants/", tenant);
}
std::string LearningTurnKey(const std::string& tenant) {
  return Below(kLearningTurnsPrefix, tenant);
}
std::string LearningFileKey(const std::string& tenant, const std::string& id) {
  return OfTenant("files/", tenant, id);
}
std::string LearningJobKey(const std::string& tenant, const std::string& id) {
  return OfTenant("jobs/", tenant, id);
}
std::string JobCancelKey(const std::string& tenant, const std::string& id) {
  return OfTenant("cancelled/", tenant, id);
}
std::string JobProgressKey(const std::string& tenant, const std::string& id) {
  return OfTenant("progress/", tenant, id);
}
std::string JobEventsKey(const std::string& tenant, const std::string& id) {
  return OfTenant("events/", tenant, id) + (id.empty() ? "" : "/");
}
std::string JobCheckpointsKey(const std::string& tenant, const std::string& id) {
  return OfTenant("checkpoints/", tenant, id) + (id.empty() ? "" : "/");
}
std::string OpenJobKey(const std::string& id) { return Below(kOpenJobsPrefix, id); }
std::string JobClaimKey(const std::string& id) { return Below(kJobClaimsPrefix, id); }
std::string LearningFilesPrefix() { return "graft-learning/files/"; }

std::vector<std::string> LearningPrefixesOf(const std::string& tenant) {
  return {LearningFileKey(tenant, ""), LearningJobKey(tenant, ""), JobCancelKey(tenant, ""),
          JobProgressKey(tenant, ""),  JobEventsKey(tenant, ""),   JobCheckpointsKey(tenant, "")};
}

bool HasPrefix(const std::string& key, std::string_view prefix) {
  return key.compare(0, prefix.size(), prefix) == 0;
}

std::string NameInKey(const std::string& key, std::string_view prefix) {
  std::string name;
  for (size_t i = prefix.size(); i < key.size(); ++i) {
    if (key[i] == '%' && i + 2 < key.size()) {
      name += static_cast<char>(std::strtol(key.substr(i + 1, 2).c_str(), nullptr, 16));
      i += 2;
    } else {
      name += key[i];
    }
  }
  return name;
}

}  // namespace graft
