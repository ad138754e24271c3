#include "options/config_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <utility>

namespace graft {
namespace {

std::string KeyOf(const YAML::Node& node) {
  std::string key = node.as<std::string>();
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

Status ReadPairs(const YAML::Node& value, ConfigEntry* entry) {
  entry->is_mapping = true;
  for (const auto& pair : value) {
    ConfigPair read{.key = KeyOf(pair.first)};
    if (pair.second.IsScalar()) {
      read.value = pair.second.as<std::string>();
    } else if (!pair.second.IsNull()) {
      return InvalidArgumentError("'" + read.key + "' under '" + entry->key +
                                  "' must be one value");
    }
    entry->pairs.push_back(std::move(read));
  }
  return OkStatus();
}

Result<ConfigEntry> ReadEntry(const YAML::Node& key, const YAML::Node& value) {
  ConfigEntry entry{.key = KeyOf(key)};
  entry.is_list = value.IsSequence();
  if (entry.is_list) {
    for (const YAML::Node& one : value) entry.texts.push_back(one.as<std::string>());
  } else if (value.IsScalar()) {
    entry.texts.push_back(value.as<std::string>());
  } else if (value.IsNull()) {
    entry.texts.emplace_back();
  } else {
    RETURN_IF_ERROR(ReadPairs(value, &entry));
  }
  return entry;
}

Result<std::vector<ConfigEntry>> ReadEntries(const std::string& path) {
  const YAML::Node root = YAML::LoadFile(path);
  std::vector<ConfigEntry> entries;
  if (root.IsNull()) return entries;
  if (!root.IsMap()) {
    return InvalidArgumentError("must hold one mapping of flag names to values");
  }
  std::set<std::string> keys;
  for (const auto& pair : root) {
    ASSIGN_OR_RETURN(ConfigEntry entry, ReadEntry(pair.first, pair.second));
    if (!keys.insert(entry.key).second) {
      return InvalidArgumentError("the key '" + entry.key + "' is there twice; keep one of them");
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

Result<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path) {
  try {
    Result<std::vector<ConfigEntry>> entries = ReadEntries(path);
    if (!entries.ok()) return entries.status().WithContext(path);
    return entries;
  } catch (const YAML::BadFile&) {
    return NotFoundError("cannot read the config file " + path);
  } catch (const YAML::Exception& error) {
    return InvalidArgumentError(path + ": not valid YAML: " + error.what());
  }
}

}  // namespace graft
