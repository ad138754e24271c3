// Parses untrusted JSON within limits, without exceptions, in time linear in the text except for
// the sorting of keys. All code that reads requests uses these functions. MeasureJson computes a
// tree's memory before the tree is built. ParseOrderedJson keeps the order of keys;
// OrderedJson::parse does so too, but looks each key up among all others. nlohmann::json does the
// work underneath. Any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/status.h"

namespace graft {

inline constexpr int kJsonDepthMax = 64;

// What a text's tree will be like, counted outside of strings. For a text that is not JSON: what a
// parser may have made until it finds that out.
struct JsonFigures {
  int64_t depth = 0;       // of brackets
  int64_t keys = 0;        // of the object that has most
  int64_t tree_bytes = 0;  // at most, of a Json or an OrderedJson with all its strings
};
JsonFigures MeasureJson(std::string_view text);

struct JsonLimits {
  int64_t depth_max = kJsonDepthMax;
  // Reading an OrderedJson's key takes a time that grows with the keys of its object: code that
  // looks up keys of a client's choice bounds them.
  int64_t keys_max = std::numeric_limits<int64_t>::max();  // of one object
  int64_t tree_bytes_max = std::numeric_limits<int64_t>::max();
};

// kInvalidArgument, for the text's sender, if `figures` are beyond `limits`.
Status CheckJson(const JsonFigures& figures, const JsonLimits& limits);

// kInvalidArgument with line and column where the text is not JSON or not UTF-8, or where it is
// beyond `limits`.
Result<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

// The same with the keys in their order. If an object has a key twice, the last value stays, in the
// place of the first.
Result<OrderedJson> ParseOrderedJson(std::string_view text, const JsonLimits& limits = {});

// A key that an object in `text`, which is valid JSON, has twice: parsers keep the last one and say
// nothing.
std::optional<std::string> FindDuplicateKey(std::string_view text);

// ParseJson of a whole file; the error starts with the path.
Result<Json> ParseJsonFile(const std::string& path, const JsonLimits& limits = {});

// The text of `json`; bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string DumpJson(const Json& json);
// The same of a text, with its quotes. Quick for one that needs no escapes.
std::string JsonString(std::string_view text, bool ensure_ascii = false);

}  // namespace graft
