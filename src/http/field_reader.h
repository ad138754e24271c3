// FieldReader: strict reading of one JSON object from a client. Every field is taken by name and
// type. Fields that are left over are refused by name, unless their value is null, {} or []. A null
// field equals an absent one. The first failure is kept, and later calls do nothing, so that a
// parser is a plain list of its fields. One thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "http/api_error.h"
#include "http/field_rows.h"

namespace graft {

// The end of a range that has none of its own.
inline constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

// Bytes of names of models, tools, roles and the like.
inline constexpr size_t kNameBytesMax = 256;

// The JSON type's name as an error shows it: "a string", "a number", ...
const char* JsonTypeName(const Json& json);

// Parses a request's body. 400 if it is no JSON, its tree would be too large, or an object has a
// key twice, one of which would be ignored silently.
ApiResult<Json> ParseBody(std::string_view body);

class FieldReader {
 public:
  // `path` goes before field names in errors: "" or, for example, "messages[2].". `object` must
  // outlive the reader; a value that is no object fails at once. If `fields` is given, it has a row
  // for every field that is taken, and each of its rows must be taken.
  FieldReader(const Json& object, std::string path, const ApiFields* fields = nullptr);

  // Each leaves *out alone where the field is absent or null.
  void Bool(const char* name, bool* out);
  void OptionalBool(const char* name, std::optional<bool>* out);
  void String(const char* name, std::string* out, size_t bytes_max);
  void Float(const char* name, float* out);
  void Int(const char* name, int32_t min, int32_t max, int32_t* out);
  void OptionalInt(const char* name, int32_t min, int32_t max, std::optional<int32_t>* out);
  // Token ids: non-negative int32.
  void IntList(const char* name, size_t items_max, std::vector<int32_t>* out);
  // A string or a list of strings.
  void StringOrList(const char* name, size_t items_max, size_t bytes_max,
                    std::vector<std::string>* out);
  // A string that must be one of these, for example the only "type" that there is. `what`, "" for
  // nothing, says of them what they are. "" where it fails.
  std::string OneOf(const char* name, std::initializer_list<const char*> values,
                    const char* what = "");
  // The value itself, or null if absent or null.
  const Json* Take(const char* name);

  // Fields that change nothing here; every client may send them.
  void Ignore(std::initializer_list<const char*> names);
  // A field that is known but not supported: refused unless it has a value that asks for nothing
  // (null, the neutral value, or an empty list, object or string).
  void Refuse(const char* name, const Json& neutral = nullptr);
  void Refuse(std::initializer_list<const char*> names);
  // Ignores whatever else there is: of an object of an earlier turn, which others have written and
  // read.
  void DropUnread() { drops_unread_ = true; }
  // Ignores and refuses what the rows of `fields` say.
  void TakeUnread();

  // Records a failure about a field of this object.
  void Fail(const std::string& name, const std::string& message);
  void Fail(ApiError error);
  bool failed() const { return error_.has_value(); }

  // To be called last: the first failure, among them a field that was not taken.
  std::optional<ApiError> Finish();

 private:
  void RefuseUnless(const char* name, const Json& got, const Json& neutral);
  bool IsKnown(const std::string& name) const;
  void FailType(const std::string& name, const char* expected, const Json& got);

  const Json* object_;  // null if it was no object
  std::string path_;
  const ApiFields* fields_;
  std::vector<uint8_t> is_taken_;  // of each row of `fields_`
  bool drops_unread_ = false;
  std::vector<std::string> known_;  // names that were taken, where there are no rows
  std::optional<ApiError> error_;
};

// The integer in `json` (3 or 3.0) if it is one within [min, max].
std::optional<int64_t> IntegerOf(const Json& json, int64_t min, int64_t max);

}  // namespace graft
