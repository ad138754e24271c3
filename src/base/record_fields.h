// Stored records that name each of their fields once, for JSON. VisitFields(record, visit), defined
// beside the record, calls visit(name, member) for each field. A reader skips unknown fields, and
// leaves members as they are if their field is missing or has another type (base/json_fields.h), so
// that two versions can share what is stored. Any thread.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>

#include "base/json.h"
#include "base/json_fields.h"
#include "base/status.h"

namespace graft {

// A Record, or a const one: VisitFields takes both.
template <typename T, typename Record>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Record>;

// A field of a type of its own has a WriteField and a ReadField beside that type.
template <typename T>
void WriteField(Json* json, const char* field, const T& value) {
  (*json)[field] = value;
}
template <typename T>
void WriteField(Json* json, const char* field, const std::optional<T>& value) {
  if (value.has_value()) (*json)[field] = *value;
}

template <typename Record>
Json FieldsOf(const Record& record) {
  Json json = Json::object();
  VisitFields(record,
              [&json](const char* field, const auto& value) { WriteField(&json, field, value); });
  return json;
}

template <typename Record>
void ReadFields(const Json& json, Record* record) {
  VisitFields(*record, [&json](const char* field, auto& value) { ReadField(json, field, &value); });
}

// kDataLoss for what is no object; `what` it would be of: "a runner".
Result<Json> ParseRecord(const std::string& text, const std::string& what);
Status MissingField(const std::string& what, const std::string& field);

// The record that `text` is. kDataLoss where it is none, or a text is empty that it must have.
template <typename Record>
struct NeededField {
  const char* name;
  std::string Record::*value;
};
template <typename Record>
Result<Record> RecordOf(const std::string& text, const char* what,
                        std::initializer_list<NeededField<Record>> needed = {}) {
  ASSIGN_OR_RETURN(const Json json, ParseRecord(text, what));
  Record record;
  ReadFields(json, &record);
  for (const NeededField<Record>& field : needed) {
    if ((record.*field.value).empty()) return MissingField(what, field.name);
  }
  return record;
}

}  // namespace graft
