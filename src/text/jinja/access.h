// Getting at parts of values: attributes, items, slices, and the arithmetic of operators. One
// thread per Heap.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace graft::jinja {

// value.name: a method or attribute of the type first, then an item of that name.
Result<Value> GetAttribute(Heap& heap, const Value& value, std::string_view name);
// value[key]: an item first, then a method of that name. Undefined where there is neither.
Result<Value> GetItem(Heap& heap, const Value& value, const Value& key);
// value[begin:end:step]; a part that is not given is None.
Result<Value> GetSlice(Heap& heap, const Value& value, const Value& begin, const Value& end,
                       const Value& step);

Result<Value> Binary(Heap& heap, BinaryOp op, const Value& a, const Value& b);
Result<Value> Negative(const Value& value);
Result<Value> Positive(const Value& value);

}  // namespace graft::jinja
