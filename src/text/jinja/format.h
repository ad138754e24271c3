// Python's two ways of formatting: "%s" % values and "{}".format(values). One thread per Heap.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/value.h"

namespace graft::jinja {

// `text % values`: a tuple gives several values, a dict named ones, anything else is one value.
Result<Value> FormatPercent(Heap& heap, std::string_view text, const Value& values);

// text.format(arguments)
Result<Value> FormatBraces(Heap& heap, std::string_view text, const Arguments& arguments);

}  // namespace graft::jinja
