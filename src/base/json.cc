#include "base/json.h"

#include <unordered_set>
#include <vector>

#include "base/file.h"

namespace graft {
namespace {

// Bytes of a parser's message that are passed on: it quotes what it could not read, all of it.
constexpr size_t kMessageBytesMax = 200;

// Whether brackets outside of strings nest deeper, looked at before a tree of them exists. (The
// parser's own callback takes a time that grows with the square of an array's length.)
bool NestsDeeper(std::string_view text, int depth_max) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > depth_max) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, int depth_max) {
  if (NestsDeeper(text, depth_max)) {
    return InvalidArgumentError("JSON nested deeper than " + std::to_string(depth_max) + " levels");
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    std::string message = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ...": the tag helps
    // nobody.
    const size_t end_of_tag = message.find("] ");
    if (end_of_tag != std::string::npos) message.erase(0, end_of_tag + 2);
    if (message.size() > kMessageBytesMax) message = message.substr(0, kMessageBytesMax) + " ...";
    return InvalidArgumentError("not valid JSON: " + DumpJson(Json(message)));
  }
}

std::optional<std::string> FindDuplicateKey(std::string_view text) {
  struct Level {
    bool is_object;
    std::unordered_set<std::string> keys;
  };
  std::vector<Level> levels;
  bool key_comes = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') levels.push_back({c == '{', {}});
    if ((c == '}' || c == ']') && !levels.empty()) levels.pop_back();
    if (c == '{' || c == ',') key_comes = !levels.empty() && levels.back().is_object;
    if (c != '"') continue;
    const size_t begin = i++;
    bool is_escaped = false;
    for (; i < text.size() && text[i] != '"'; ++i) {
      if (text[i] != '\\') continue;
      is_escaped = true;
      ++i;
    }
    if (!key_comes) continue;
    key_comes = false;
    std::string key(text.substr(begin + 1, i - begin - 1));
    if (is_escaped) {
      const Json unescaped = Json::parse(text.substr(begin, i - begin + 1), nullptr, false);
      if (unescaped.is_string()) key = unescaped.get<std::string>();
    }
    if (!levels.back().keys.insert(key).second) return key;
  }
  return std::nullopt;
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
