// The items of a conversation of /v1/responses. Items of a request are read strictly and completed
// with ids and lists of parts, in the form in which they are stored and listed. Pure functions; any
// thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/json.h"
#include "http/field_reader.h"

namespace graft {

// Takes the field "input", a text or a list of items, as a JSON list of whole items.
void ReadInput(FieldReader& reader, size_t items_max, Json* items);

// Gives arguments of calls that came as objects the order of their keys in `body`, the body that
// had `input` as its field "input".
void UseArgumentOrder(const Json& input, std::string_view body, Json* items);

}  // namespace graft
