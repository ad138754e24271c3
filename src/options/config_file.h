// A file of settings: YAML, or JSON, which YAML contains. One thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace graft {

// One entry of a mapping inside the file's, as --tune has.
struct ConfigPair {
  std::string key;  // with dashes, whatever the file has
  std::string value;
};

struct ConfigEntry {
  std::string key;                 // with dashes, whatever the file has
  std::vector<std::string> texts;  // of a list as many as it has; of one value one, "" for nothing
  std::vector<ConfigPair> pairs;   // of a mapping
  bool is_list = false;
  bool is_mapping = false;
};

// The entries of the file's one mapping, in its order; no key comes twice. Errors name the file.
Result<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path);

}  // namespace graft
