#include "base/json_file.h"

#include <fstream>

#include "base/json.h"

namespace graft {

Status WriteJson(const std::string& path, const OrderedJson& json) {
  if (path.empty()) return OkStatus();
  return WriteText(path, json.dump(2) + "\n");
}

Status WriteText(const std::string& path, std::string_view text) {
  if (path.empty()) return OkStatus();
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return NotFoundError("cannot write " + path);
  return OkStatus();
}

}  // namespace graft
