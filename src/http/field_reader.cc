#include "http/field_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/nearest_names.h"

namespace graft {
namespace {

constexpr size_t kKeyBytesShown = 80;
// Limits of a body's tree. The largest lists are of token ids, 32 bytes each. No field has more
// keys than logit_bias; what a template or a schema has is looked up key by key.
constexpr JsonLimits kBodyLimits = {.keys_max = 4096, .tree_bytes_max = int64_t{128} << 20};

// A client's text may be megabytes; an error quotes its start.
std::string Text(const Json& json) {
  constexpr size_t kBytesMax = 80;
  std::string text = DumpJson(json);
  if (text.size() > kBytesMax) text = text.substr(0, kBytesMax) + "...";
  return text;
}

std::string Quoted(const Json& json) {
  return json.is_structured() ? JsonTypeName(json) : Text(json);
}

// null, {} or []: a field of this value asks for nothing, whatever its name is.
bool AsksForNothing(const Json& json) {
  return (json.is_null() || json.is_structured()) && json.empty();
}

std::string ElementName(const std::string& name, size_t idx) {
  return name + "[" + std::to_string(idx) + "]";
}

}  // namespace

const char* JsonTypeName(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

std::optional<int64_t> IntegerOf(const Json& json, int64_t min, int64_t max) {
  int64_t value = 0;
  if (json.is_number_unsigned()) {
    const uint64_t number = json.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    value = static_cast<int64_t>(number);
  } else if (json.is_number_integer()) {
    value = json.get<int64_t>();
  } else if (json.is_number_float()) {
    const double number = json.get<double>();
    // 2^53: beyond it a double no longer tells one integer from the next.
    if (std::abs(number) > 9007199254740992.0 || number != std::floor(number)) return std::nullopt;
    value = static_cast<int64_t>(number);
  } else {
    return std::nullopt;
  }
  if (value < min || value > max) return std::nullopt;
  return value;
}

ApiResult<Json> ParseBody(std::string_view body) {
  if (body.empty()) return InvalidRequestError("", "The body is empty; send a JSON object.");
  Result<Json> json = ParseJson(body, kBodyLimits);
  if (!json.ok()) return InvalidRequestError("", "The body is " + json.status().message());
  if (const std::optional<std::string> key = FindDuplicateKey(body)) {
    const std::string shown = key->substr(0, kKeyBytesShown);
    return InvalidRequestError(shown, "The body has the key '" + shown +
                                          "' twice in one object; "
                                          "give it once.");
  }
  return std::move(*json);
}

FieldReader::FieldReader(const Json& object, std::string path, const ApiFields* fields)
    : object_(object.is_object() ? &object : nullptr),
      path_(std::move(path)),
      fields_(fields),
      is_taken_(fields == nullptr ? 0 : fields->rows().size()) {
  if (object_ != nullptr) return;
  const std::string where =
      path_.empty() ? "the body" : path_.substr(0, path_.size() - 1);  // without its "."
  Fail(InvalidRequestError(path_.empty() ? "" : where,
                           where + " must be a JSON object, got " + JsonTypeName(object)));
}

const Json* FieldReader::Take(const char* name) {
  Ignore({name});
  if (object_ == nullptr || failed()) return nullptr;
  const auto it = object_->find(name);
  if (it == object_->end() || it->is_null()) return nullptr;
  return &*it;
}

void FieldReader::Bool(const char* name, bool* out) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_boolean()) return FailType(name, "a boolean", *json);
  *out = json->get<bool>();
}

void FieldReader::OptionalBool(const char* name, std::optional<bool>* out) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_boolean()) return FailType(name, "a boolean", *json);
  *out = json->get<bool>();
}

void FieldReader::String(const char* name, std::string* out, size_t bytes_max) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_string()) return FailType(name, "a string", *json);
  const std::string& text = json->get_ref<const std::string&>();
  if (text.size() > bytes_max) {
    return Fail(name, "is longer than " + std::to_string(bytes_max) + " bytes");
  }
  *out = text;
}

std::string FieldReader::OneOf(const char* name, std::initializer_list<const char*> values,
                               const char* what) {
  std::string text;
  String(name, &text, kNameBytesMax);
  if (failed()) return "";
  std::string list;
  for (const char* const* value = values.begin(); value != values.end(); ++value) {
    if (text == *value) return text;
    if (value != values.begin()) list += value + 1 == values.end() ? " or " : ", ";
    list += "'" + std::string(*value) + "'";
  }
  if (*what != '\0') list += std::string(", ") + what;
  Fail(name, "must be " + list + ", got '" + text + "'");
  return "";
}

void FieldReader::Float(const char* name, float* out) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_number()) return FailType(name, "a number", *json);
  const double value = json->get<double>();
  if (std::abs(value) > std::numeric_limits<float>::max()) {
    return Fail(name, "is out of range, got " + Quoted(*json));
  }
  *out = static_cast<float>(value);
}

void FieldReader::Int(const char* name, int32_t min, int32_t max, int32_t* out) {
  std::optional<int32_t> value;
  OptionalInt(name, min, max, &value);
  if (value.has_value()) *out = *value;
}

void FieldReader::OptionalInt(const char* name, int32_t min, int32_t max,
                              std::optional<int32_t>* out) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_number()) return FailType(name, "an integer", *json);
  const std::optional<int64_t> value = IntegerOf(*json, min, max);
  if (!value.has_value()) {
    return Fail(name, "must be an integer between " + std::to_string(min) + " and " +
                          std::to_string(max) + ", got " + Quoted(*json));
  }
  *out = static_cast<int32_t>(*value);
}

void FieldReader::IntList(const char* name, size_t items_max, std::vector<int32_t>* out) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_array()) return FailType(name, "a list of integers", *json);
  if (json->size() > items_max) {
    return Fail(name, "has " + std::to_string(json->size()) + " items, the limit is " +
                          std::to_string(items_max));
  }
  std::vector<int32_t> values;
  for (const Json& item : *json) {
    const std::optional<int64_t> value = IntegerOf(item, 0, std::numeric_limits<int32_t>::max());
    if (!value.has_value()) {
      return FailType(ElementName(name, values.size()), "a non-negative integer", item);
    }
    values.push_back(static_cast<int32_t>(*value));
  }
  *out = std::move(values);
}

void FieldReader::StringOrList(const char* name, size_t items_max, size_t bytes_max,
                               std::vector<std::string>* out) {
  const Json* json = Take(name);
  if (json == nullptr) return;
  if (!json->is_string() && !json->is_array()) {
    return FailType(name, "a string or a list of strings", *json);
  }
  const bool is_list = json->is_array();
  if (is_list && json->size() > items_max) {
    return Fail(name, "has " + std::to_string(json->size()) + " items, the limit is " +
                          std::to_string(items_max));
  }
  std::vector<std::string> values;
  const size_t num_items = is_list ? json->size() : 1;
  for (size_t i = 0; i < num_items; ++i) {
    const Json& item = is_list ? (*json)[i] : *json;
    const std::string item_name = is_list ? ElementName(name, i) : name;
    if (!item.is_string()) return FailType(item_name, "a string", item);
    const std::string& text = item.get_ref<const std::string&>();
    if (text.empty()) return Fail(item_name, "must not be empty");
    if (text.size() > bytes_max) {
      return Fail(item_name, "is longer than " + std::to_string(bytes_max) + " bytes");
    }
    values.push_back(text);
  }
  *out = std::move(values);
}

void FieldReader::Ignore(std::initializer_list<const char*> names) {
  if (fields_ == nullptr) {
    known_.insert(known_.end(), names.begin(), names.end());
    return;
  }
  for (const char* const name : names) {
    const ApiField* const row = fields_->Find(name);
    CHECK(row != nullptr) << name << " has no row";
    is_taken_[row - fields_->rows().data()] = 1;
  }
}

bool FieldReader::IsKnown(const std::string& name) const {
  if (fields_ != nullptr) return fields_->Find(name) != nullptr;
  return std::find(known_.begin(), known_.end(), name) != known_.end();
}

void FieldReader::Refuse(const char* name, const Json& neutral) {
  const Json* json = Take(name);
  if (json != nullptr) RefuseUnless(name, *json, neutral);
}

void FieldReader::RefuseUnless(const char* name, const Json& got, const Json& neutral) {
  if (AsksForNothing(got) || got == "" || got == neutral) return;
  std::string message = "is not supported";
  if (!neutral.is_null()) message += " with values other than " + Text(neutral);
  ApiError error = InvalidRequestError(
      path_ + name, "'" + path_ + name + "' " + message + ", got " + Quoted(got));
  error.code = "unsupported";
  Fail(std::move(error));
}

void FieldReader::Refuse(std::initializer_list<const char*> names) {
  for (const char* name : names) Refuse(name);
}

void FieldReader::TakeUnread() {
  for (const ApiField& row : fields_->rows()) {
    if (row.use == FieldUse::kIgnored) Ignore({row.name});
    if (row.use != FieldUse::kRefused) continue;
    const Json* json = Take(row.name);
    if (json != nullptr) RefuseUnless(row.name, *json, Json::parse(row.neutral));
  }
}

void FieldReader::Fail(const std::string& name, const std::string& message) {
  Fail(InvalidRequestError(path_ + name, "'" + path_ + name + "' " + message));
}

void FieldReader::Fail(ApiError error) {
  if (!failed()) error_ = std::move(error);
}

void FieldReader::FailType(const std::string& name, const char* expected, const Json& got) {
  Fail(name, std::string("must be ") + expected + ", got " + Quoted(got));
}

std::optional<ApiError> FieldReader::Finish() {
  if (object_ == nullptr || failed()) return error_;
  if (fields_ != nullptr) {
    for (size_t i = 0; i < is_taken_.size(); ++i) {
      CHECK(is_taken_[i] != 0) << fields_->rows()[i].name << " has a row that nothing reads";
    }
  }
  if (drops_unread_) return std::nullopt;
  for (const auto& [key, value] : object_->items()) {
    if (AsksForNothing(value) || IsKnown(key)) continue;
    std::vector<std::string> names = known_;
    if (fields_ != nullptr) {
      for (const ApiField& row : fields_->rows()) {
        if (row.use != FieldUse::kRefused) names.emplace_back(row.name);
      }
    }
    const std::string nearest = NearestNames(key, names, 1);
    const std::string message =
        "Unrecognized field: '" + path_ + key.substr(0, kKeyBytesShown) + "'" +
        (nearest.empty() ? ". Leave it out"
                         : ", did you mean " + nearest + "? If not, leave it out") +
        ": Graft does not have it here.";
    ApiError error = InvalidRequestError(path_ + key.substr(0, kKeyBytesShown), message);
    error.code = "unknown_field";
    return error;
  }
  return std::nullopt;
}

}  // namespace graft
