// A grammar as requests carry it: JSON text, made of nested formats. The language is that of
// XGrammar's structural tags, as far as Graft uses it. The library behind grammar_library.h reads
// it. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace graft {

// Each of these is one format.
OrderedJson LiteralFormat(std::string_view text);
// JSON by a schema that ReadSchema made.
OrderedJson SchemaFormat(const OrderedJson& schema);
OrderedJson RegexFormat(std::string_view pattern);
// A grammar in EBNF, beginning with the rule `root`.
OrderedJson EbnfFormat(std::string_view grammar);
OrderedJson SequenceFormat(std::vector<OrderedJson> formats);
OrderedJson OneOfFormat(std::vector<OrderedJson> formats);
OrderedJson OptionalFormat(OrderedJson format);
OrderedJson RepeatedFormat(OrderedJson format);  // any number of times
// Any text up to `end`, and that.
OrderedJson TextUntilFormat(std::string_view begin, std::string_view end);
// Text, and a tag wherever one of `triggers` comes in it, which the tag's beginning starts with.
struct TagFormat {
  std::string begin;
  OrderedJson content;
  std::string end;
};
OrderedJson TriggeredFormat(const std::vector<std::string>& triggers, std::vector<TagFormat> tags);

std::string GrammarText(OrderedJson format);

}  // namespace graft
