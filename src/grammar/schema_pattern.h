// The regular expressions of JSON schemas, as far as they are the same in ECMAScript and in the
// grammars' library, inside a JSON string. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace graft {

// A pattern that matches a whole string, each of whose strings has a match of `pattern`, none of
// which needs an escape in JSON. kUnimplemented names what is not supported.
Result<std::string> ReadPattern(std::string_view pattern);

}  // namespace graft
