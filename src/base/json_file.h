// JSON into a file, for people and programs that read it later.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "base/status.h"

namespace graft {

// Writes `json` to `path`, indented; nothing for "".
Status WriteJson(const std::string& path, const OrderedJson& json);

}  // namespace graft
