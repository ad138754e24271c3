// Values as text: str(), repr() and json.dumps(), byte for byte as Python writes them. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "text/jinja/value.h"

namespace graft::jinja {

// repr(float), which is also its str: the shortest text that reads back as the same number.
std::string FloatText(double value);
// repr(str)
std::string QuoteText(std::string_view text);

// Each gives a string. What is not a string itself is untrusted if it holds anything untrusted.

// str(value); kUnimplemented for what Python writes with an address in memory.
Result<Value> ToText(Heap& heap, const Value& value);
// repr(value)
Result<Value> ToRepr(Heap& heap, const Value& value);

// The arguments of Hugging Face's `tojson`, which are json.dumps's and not Jinja's own: no HTML
// escapes, keys in their order.
struct JsonStyle {
  bool ensure_ascii = false;
  bool has_indent = false;
  std::string indent;  // one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
Result<Value> ToJson(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace graft::jinja
