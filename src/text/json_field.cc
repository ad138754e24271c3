#include "text/json_field.h"

namespace graft {
namespace {

// nullptr where absent or null.
const Json* Find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Status WrongType(const char* key, const std::string& expected) {
  return InvalidArgumentError("field '" + std::string(key) + "' must be " + expected);
}

}  // namespace

Result<std::string> TypeOf(const Json& component, const std::string& what) {
  if (!component.is_object()) return InvalidArgumentError(what + " must be an object");
  const Json* type = Find(component, "type");
  if (type == nullptr || !type->is_string()) {
    return InvalidArgumentError(what + " has no string 'type'");
  }
  return type->get<std::string>();
}

Result<std::string> StringField(const Json& object, const char* key, const std::string& fallback) {
  const Json* field = Find(object, key);
  if (field == nullptr) return fallback;
  if (!field->is_string()) return WrongType(key, "a string");
  return field->get<std::string>();
}

Result<bool> BoolField(const Json& object, const char* key, bool fallback) {
  const Json* field = Find(object, key);
  if (field == nullptr) return fallback;
  if (!field->is_boolean()) return WrongType(key, "true or false");
  return field->get<bool>();
}

Result<int64_t> IntField(const Json& object, const char* key, int64_t fallback) {
  const Json* field = Find(object, key);
  if (field == nullptr) return fallback;
  if (!field->is_number_integer()) return WrongType(key, "a whole number");
  return field->get<int64_t>();
}

Status UnsupportedComponent(const std::string& what, const std::string& type,
                            const std::string& supported) {
  return UnimplementedError(what + " '" + type + "' is not supported; supported are " + supported);
}

}  // namespace graft
