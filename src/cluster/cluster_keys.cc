#include "cluster/cluster_keys.h"

#include <fmt/core.h>

#include <cstdlib>

namespace graft {
namespace {

std::string Escaped(const std::string& name) {
  std::string escaped;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || c == '%' || byte < 0x20 || byte >= 0x7f) {
      escaped += fmt::format("%{:02X}", byte);
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string KeyBelow(std::string_view prefix, const std::string& name) {
  return std::string(prefix) + Escaped(name);
}

std::string KeyOfTenant(const std::string& kind, const std::string& tenant, const std::string& id) {
  return KeyBelow("graft-learning/" + kind, tenant) + "/" + Escaped(id);
}

std::string NumberedKey(const std::string& prefix, int64_t number) {
  return fmt::format("{}{:010}", prefix, number);
}

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
