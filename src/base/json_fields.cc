#include "base/json_fields.h"

#include "base/json.h"
#include "base/record_fields.h"

namespace graft {

void ReadField(const Json& json, const char* field, std::string* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_string()) *out = it->get<std::string>();
}
void ReadField(const Json& json, const char* field, int64_t* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_number_integer()) *out = it->get<int64_t>();
}
void ReadField(const Json& json, const char* field, int32_t* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_number_integer()) *out = it->get<int32_t>();
}
void ReadField(const Json& json, const char* field, uint32_t* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_number_integer()) *out = it->get<uint32_t>();
}
void ReadField(const Json& json, const char* field, bool* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_boolean()) *out = it->get<bool>();
}
void ReadField(const Json& json, const char* field, double* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_number()) *out = it->get<double>();
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

void ReadField(const Json& json, const char* field, std::optional<std::string>* out) {
  const auto it = json.find(field);
  if (it != json.end() && it->is_string()) *out = it->get<std::string>();
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
