// JSON from untrusted hands: parsing with a depth limit and no exceptions, and typed reading of
// fields whose errors name the field. nlohmann::json underneath. No thread of its own.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/status.h"

namespace graft {

inline constexpr int kJsonDepthMax = 64;

// kInvalidArgument with line and column where the text is not JSON, is not UTF-8, or nests deeper
// than `depth_max`.
Result<Json> ParseJson(std::string_view text, int depth_max = kJsonDepthMax);

// The first key that an object in `text`, which is valid JSON, has twice: parsers keep the last one
// and say nothing.
std::optional<std::string> FindDuplicateKey(std::string_view text);

// ParseJson of a whole file; the error starts with the path.
Result<Json> ParseJsonFile(const std::string& path, int depth_max = kJsonDepthMax);

// The text of `json`; bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string DumpJson(const Json& json);

}  // namespace graft
