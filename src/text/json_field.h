// Typed reading of one field of a tokenizer's JSON; an error names the component and the field.
#pragma once

#include <string>

#include "base/json.h"

namespace graft {

// The component's "type", or an error that names `what` was expected.
Result<std::string> TypeOf(const Json& component, const std::string& what);

// The field, or `fallback` where it is absent or null.
Result<std::string> StringField(const Json& object, const char* key, const std::string& fallback);
Result<bool> BoolField(const Json& object, const char* key, bool fallback);
Result<int64_t> IntField(const Json& object, const char* key, int64_t fallback);

// kUnimplemented: "pre-tokenizer 'X' is not supported; supported are ...".
Status UnsupportedComponent(const std::string& what, const std::string& type,
                            const std::string& supported);

}  // namespace graft
