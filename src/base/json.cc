#include "base/json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/file.h"

namespace graft {
namespace {

// Bytes of a parser's message that are passed on: it quotes what it could not read, all of it.
constexpr size_t kMessageBytesMax = 200;

// Estimates, rounded up, of the bytes that a parsed tree takes besides the characters of its text.
// Each value is an element of an array, and the array's capacity may be twice its size.
constexpr int64_t kValueBytes = 32;
// Each string, array and object also owns heap blocks.
constexpr int64_t kOwnedBytes = 64;
// Each key takes a node of a std::map in a Json. In an OrderedJson it takes an element of an array,
// and that array's capacity may be twice its size, too.
constexpr int64_t kKeyBytes = 96;

Status NotJson(std::string message) {
  // "[json.exception.parse_error.101] parse error at line 1, column 5: ...": the tag is left out.
  const size_t end_of_tag = message.find("] ");
  if (end_of_tag != std::string::npos) message.erase(0, end_of_tag + 2);
  if (message.size() > kMessageBytesMax) message = message.substr(0, kMessageBytesMax) + " ...";
  return InvalidArgumentError("not valid JSON: " + DumpJson(Json(message)));
}

// Where the string that begins at `begin` ends: the place of its closing quote, or the text's end.
size_t EndOfString(std::string_view text, size_t begin, bool* is_escaped) {
  size_t i = begin + 1;
  for (; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] != '\\') continue;
    *is_escaped = true;
    ++i;
  }
  return std::min(i, text.size());
}

// Builds the tree from the parser's events. The parser's own builder asks an object for each key.
class OrderedReader : public nlohmann::json_sax<OrderedJson> {
 public:
  OrderedJson TakeRoot() { return std::move(root_); }
  const std::string& error() const { return error_; }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string& /*text*/) override { return Add(value); }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(OrderedJson::binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return Open(OrderedJson::object()); }
  bool start_array(size_t /*size*/) override { return Open(OrderedJson::array()); }
  bool key(std::string& value) override {
    // The vector beneath appends without a search for the key.
    open_.back()->get_ref<Object&>().emplace_back(std::move(value), nullptr);
    return true;
  }
  bool end_object() override {
    KeepLastValues(&open_.back()->get_ref<Object&>());
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    error_ = error.what();
    return false;
  }

 private:
  using Object = OrderedJson::object_t;

  OrderedJson* Put(OrderedJson value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    OrderedJson& place = open_.back()->get_ref<Object&>().back().second;
    place = std::move(value);
    return &place;
  }
  bool Add(OrderedJson value) {
    Put(std::move(value));
    return true;
  }
  // A value stays where it is while it is open: what it lies in gets no other until then.
  bool Open(OrderedJson value) {
    open_.push_back(Put(std::move(value)));
    return true;
  }

  static void KeepLastValues(Object* object) {
    std::vector<size_t> by_key(object->size());
    for (size_t i = 0; i < by_key.size(); ++i) by_key[i] = i;
    const auto key_of = [&](size_t i) -> const std::string& {
      return object->begin()[static_cast<std::ptrdiff_t>(i)].first;
    };
    std::sort(by_key.begin(), by_key.end(), [&](size_t a, size_t b) {
      const int order = key_of(a).compare(key_of(b));
      return order != 0 ? order < 0 : a < b;
    });
    std::vector<size_t> source(by_key.size(), kNone);  // by place: the index of its value
    bool has_twice = false;
    for (size_t i = 0; i < by_key.size();) {
      size_t last = i;
      while (last + 1 < by_key.size() && key_of(by_key[last + 1]) == key_of(by_key[i])) ++last;
      source[by_key[i]] = by_key[last];
      has_twice = has_twice || last > i;
      i = last + 1;
    }
    if (!has_twice) return;
    Object once;
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] == kNone) continue;
      once.emplace_back(key_of(i),
                        std::move(object->begin()[static_cast<std::ptrdiff_t>(source[i])].second));
    }
    *object = std::move(once);
  }

  static constexpr size_t kNone = static_cast<size_t>(-1);
  OrderedJson root_;
  std::vector<OrderedJson*> open_;
  std::string error_;
};

// Before it is parsed. The library takes a NUL for the end of the text and says nothing of the
// rest.
Status CheckJsonText(std::string_view text, const JsonLimits& limits) {
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return NotJson("a NUL, byte " + std::to_string(nul + 1) + " of the text");
  }
  return CheckJson(MeasureJson(text), limits);
}

}  // namespace

// In one pass over the bytes. (The parser's own callback takes a time that grows with the square of
// an array's length.)
JsonFigures MeasureJson(std::string_view text) {
  JsonFigures figures;
  std::vector<int64_t> keys;  // of each level
  int64_t values = 1;         // each begins the text, or comes behind a bracket or a comma
  int64_t owned = 0;
  int64_t num_keys = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      bool is_escaped = false;
      i = EndOfString(text, i, &is_escaped);
      ++owned;
    } else if (c == '[' || c == '{') {
      keys.push_back(0);
      figures.depth = std::max(figures.depth, static_cast<int64_t>(keys.size()));
      ++owned;
      ++values;
    } else if (c == ',') {
      ++values;
    } else if ((c == ']' || c == '}') && !keys.empty()) {
      keys.pop_back();
    } else if (c == ':' && !keys.empty()) {
      ++num_keys;
      figures.keys = std::max(figures.keys, ++keys.back());
    }
  }
  figures.tree_bytes = static_cast<int64_t>(text.size()) + kValueBytes * values +
                       kOwnedBytes * owned + kKeyBytes * num_keys;
  return figures;
}

Status CheckJson(const JsonFigures& figures, const JsonLimits& limits) {
  if (figures.depth > limits.depth_max) {
    return InvalidArgumentError("JSON nested deeper than " + std::to_string(limits.depth_max) +
                                " levels");
  }
  if (figures.keys > limits.keys_max) {
    return InvalidArgumentError("JSON with an object of " + std::to_string(figures.keys) +
                                " keys, where one may have " + std::to_string(limits.keys_max));
  }
  if (figures.tree_bytes > limits.tree_bytes_max) {
    return InvalidArgumentError("JSON with too many values: they take about " +
                                std::to_string(figures.tree_bytes) +
                                " bytes of memory, and may take " +
                                std::to_string(limits.tree_bytes_max) + "; send fewer at once");
  }
  return OkStatus();
}

Result<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  RETURN_IF_ERROR(CheckJsonText(text, limits));
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::exception& error) {
    return NotJson(error.what());
  }
}

Result<OrderedJson> ParseOrderedJson(std::string_view text, const JsonLimits& limits) {
  RETURN_IF_ERROR(CheckJsonText(text, limits));
  OrderedReader reader;
  if (!OrderedJson::sax_parse(text.begin(), text.end(), &reader)) return NotJson(reader.error());
  return reader.TakeRoot();
}

std::optional<std::string> FindDuplicateKey(std::string_view text) {
  struct Level {
    bool is_object;
    std::vector<std::string> keys;
  };
  std::vector<Level> levels;
  bool key_comes = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') levels.push_back({c == '{', {}});
    if ((c == '}' || c == ']') && !levels.empty()) {
      // Sorted, not hashed: a client could choose keys that collide in a hash table.
      std::vector<std::string>& keys = levels.back().keys;
      std::sort(keys.begin(), keys.end());
      const auto twice = std::adjacent_find(keys.begin(), keys.end());
      if (twice != keys.end()) return *twice;
      levels.pop_back();
      key_comes = false;
    }
    if (c == '{' || c == ',') key_comes = !levels.empty() && levels.back().is_object;
    if (c != '"') continue;
    const size_t begin = i;
    bool is_escaped = false;
    i = EndOfString(text, begin, &is_escaped);
    if (!key_comes) continue;
    key_comes = false;
    std::string key(text.substr(begin + 1, i - begin - 1));
    if (is_escaped) {
      const Json unescaped = Json::parse(text.substr(begin, i - begin + 1), nullptr, false);
      if (unescaped.is_string()) key = unescaped.get<std::string>();
    }
    levels.back().keys.push_back(std::move(key));
  }
  return std::nullopt;
}

Result<Json> ParseJsonFile(const std::string& path, const JsonLimits& limits) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Result<Json> json = ParseJson(text, limits);
  if (!json.ok()) return json.status().WithContext(path);
  return json;
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string JsonString(std::string_view text, bool ensure_ascii) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
  });
  if (is_plain) return "\"" + std::string(text) + "\"";
  return Json(text).dump(-1, ' ', ensure_ascii, Json::error_handler_t::replace);
}

}  // namespace graft
