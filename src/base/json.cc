#include "base/json.h"

#include "base/file.h"

namespace graft {
namespace {

// Refuses what nests too deep while parsing, before a tree of it exists.
Result<Json> ParseLimited(std::string_view text, int depth_max) {
  bool too_deep = false;
  const auto callback = [&](int depth, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= depth_max) too_deep = true;
    return !too_deep;
  };
  Json json;
  try {
    json = Json::parse(text.begin(), text.end(), callback);
  } catch (const Json::exception& error) {
    std::string message = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ...": the tag helps
    // nobody.
    const size_t end_of_tag = message.find("] ");
    if (end_of_tag != std::string::npos) message.erase(0, end_of_tag + 2);
    return InvalidArgumentError("not valid JSON: " + DumpJson(Json(message)));
  }
  if (too_deep) {
    return InvalidArgumentError("JSON nested deeper than " + std::to_string(depth_max) + " levels");
  }
  return json;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, int depth_max) {
  return ParseLimited(text, depth_max);
}

Result<Json> ParseJsonFile(const std::string& path, int depth_max) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Result<Json> json = ParseJson(text, depth_max);
  if (!json.ok()) return json.status().WithContext(path);
  return json;
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace graft
