// The regular expressions of JSON schemas, as far as they are the same in ECMAScript and in the
// grammars' library, inside a JSON string. They keep nothing; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/schema_work.h"

namespace graft {

// Returns a pattern for whole strings. Each string that it matches has a match of `pattern`
// somewhere in it, as JSON Schema defines, and needs no escape in JSON. kUnimplemented names what
// is not supported.
Result<std::string> ReadPattern(std::string_view pattern);

// All strings that have a match of the pattern, if they are few and the pattern lists them, as
// "^(a|b)$" does. Otherwise nothing. The strings written meanwhile are charged to `work`.
Result<std::optional<std::vector<std::string>>> StringsOfPattern(std::string_view pattern,
                                                                 SchemaWork& work);

}  // namespace graft
