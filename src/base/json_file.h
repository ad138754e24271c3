// JSON, or any text, into a file, for people and programs that read it later.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/status.h"

namespace graft {

// Writes `json` to `path`, indented; nothing for "".
Status WriteJson(const std::string& path, const OrderedJson& json);

// Writes `text` to `path` in the place of what was there; nothing for "".
Status WriteText(const std::string& path, std::string_view text);

}  // namespace graft
