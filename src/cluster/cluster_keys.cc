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

}  // namespace

std::string ClusterKey() { return "graft/cluster"; }
std::string BaseKey() { return "graft/base"; }
std::string LeaderKey() { return "graft/leader"; }
std::string SlicesKey() { return "graft/slices"; }
std::string HintKey() { return "graft/hint"; }
std::string RunnerKey(const std::string& id) { return Below(kRunnersPrefix, id); }
std::string FrontendKey(const std::string& id) { return Below(kFrontendsPrefix, id); }
std::string LeavingKey(const std::string& id) { return Below(kLeavingPrefix, id); }
std::string AdapterKey(const std::string& name) { return Below(kAdaptersPrefix, name); }
std::string VersionsKey(const std::string& name) { return Below(kVersionsPrefix, name) + "/"; }
std::string TenantKey(const std::string& name) { return Below(kTenantsPrefix, name); }
std::string ApiKeyKey(const std::string& digest) { return Below(kApiKeysPrefix, digest); }

std::string VersionKey(const std::string& name, int64_t version) {
  char digits[24];
  std::snprintf(digits, sizeof(digits), "%010lld", static_cast<long long>(version));
  return VersionsKey(name) + digits;
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
