// Json's and OrderedJson's names, for headers that only refer to them: reading nlohmann::json
// takes a compiler two seconds. base/json.h has the types. No thread of its own.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace graft {

using Json = nlohmann::json;
// Keeps the order of keys, for what people read.
using OrderedJson = nlohmann::ordered_json;

}  // namespace graft
