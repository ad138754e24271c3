#include "base/json_fields.h"

#include "base/json.h"
#include "base/record_fields.h"

namespace graft {

namespace {

// A value of the type that `is_type` asks for.
template <typename T, typename Out>
void ReadTyped(const Json& json, const char* field, bool (Json::*is_type)() const noexcept,
               Out* out) {
  const auto it = json.find(field);
  if (it != json.end() && ((*it).*is_type)()) *out = it->get<T>();
}

}  // namespace

void ReadField(const Json& json, const char* field, std::string* out) {
  ReadTyped<std::string>(json, field, &Json::is_string, out);
}
void ReadField(const Json& json, const char* field, int64_t* out) {
  ReadTyped<int64_t>(json, field, &Json::is_number_integer, out);
}
void ReadField(const Json& json, const char* field, int32_t* out) {
  ReadTyped<int32_t>(json, field, &Json::is_number_integer, out);
}
void ReadField(const Json& json, const char* field, uint32_t* out) {
  ReadTyped<uint32_t>(json, field, &Json::is_number_integer, out);
}
void ReadField(const Json& json, const char* field, bool* out) {
  ReadTyped<bool>(json, field, &Json::is_boolean, out);
}
void ReadField(const Json& json, const char* field, double* out) {
  ReadTyped<double>(json, field, &Json::is_number, out);
}
void ReadField(const Json& json, const char* field, std::optional<std::string>* out) {
  ReadTyped<std::string>(json, field, &Json::is_string, out);
}

void ReadField(const Json& json, const char* field, std::vector<std::string>* out) {
  const auto it = json.find(field);
  if (it == json.end() || !it->is_array()) return;
  for (const Json& one : *it) {
    if (one.is_string()) out->push_back(one.get<std::string>());
  }
}

void ReadField(const Json& json, const char* field, std::map<std::string, double>* out) {
  const auto it = json.find(field);
  if (it == json.end() || !it->is_object()) return;
  for (const auto& [key, number] : it->items()) {
    if (number.is_number()) (*out)[key] = number.get<double>();
  }
}

Result<Json> ParseRecord(const std::string& text, const std::string& what) {
  Result<Json> json = ParseJson(text);
  if (json.ok() && json->is_object()) return json;
  return DataLossError("the record is not that of " + what);
}

Status MissingField(const std::string& what, const std::string& field) {
  return DataLossError("the record of " + what + " has no " + field);
}

}  // namespace graft
