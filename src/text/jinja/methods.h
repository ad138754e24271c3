// Methods of Python's str, dict, list and tuple that templates call. One thread per Heap.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/value.h"

namespace graft::jinja {

// A bound method if values of this type have one of that name; undefined otherwise. Methods that
// would change a list or dict are there but forbidden, as in Jinja's immutable sandbox.
Value FindMethod(Heap& heap, const Value& self, std::string_view name);

// kUnimplemented for a method that Python has and Graft does not.
Result<Value> CallMethod(Heap& heap, const Value& self, std::string_view name,
                         const Arguments& arguments);

// str.replace: at most `count` times if >= 0. These take strings and give one.
Result<Value> ReplaceText(Heap& heap, const Value& text, std::string_view old_text,
                          const Value& new_text, int64_t count);
// str.center and its kin: `left` and `right` fill characters around the text.
Result<Value> PadText(Heap& heap, const Value& text, int64_t left, int64_t right,
                      const Value& fill);
// str.join over the texts of `items`.
Result<Value> JoinTexts(Heap& heap, const Value& separator, const std::vector<Value>& items);

}  // namespace graft::jinja
