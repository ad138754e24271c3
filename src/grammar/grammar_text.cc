#include "grammar/grammar_text.h"

#include <utility>

#include "base/json.h"

namespace graft {
namespace {

// White space between two tokens of JSON: a model that may write any number of it may write
// nothing else for ever.
constexpr int kBlanksMax = 1;

OrderedJson Format(const char* type) { return {{"type", type}}; }

OrderedJson WithElements(const char* type, std::vector<OrderedJson> formats) {
  if (formats.size() == 1) return std::move(formats.front());
  OrderedJson format = Format(type);
  format["elements"] = std::move(formats);
  return format;
}

OrderedJson WithContent(const char* type, OrderedJson content) {
  OrderedJson format = Format(type);
  format["content"] = std::move(content);
  return format;
}

OrderedJson Tag(std::string_view begin, OrderedJson content, std::string_view end) {
  OrderedJson tag = Format("tag");
  tag["begin"] = begin;
  tag["content"] = std::move(content);
  tag["end"] = end;
  return tag;
}

}  // namespace

OrderedJson LiteralFormat(std::string_view text) {
  OrderedJson format = Format("const_string");
  format["value"] = text;
  return format;
}

OrderedJson SchemaFormat(const OrderedJson& schema) {
  OrderedJson format = Format("json_schema");
  format["json_schema"] = schema;
  format["max_whitespace_cnt"] = kBlanksMax;
  return format;
}

OrderedJson RegexFormat(std::string_view pattern) {
  OrderedJson format = Format("regex");
  format["pattern"] = pattern;
  return format;
}

OrderedJson EbnfFormat(std::string_view grammar) {
  OrderedJson format = Format("grammar");
  format["grammar"] = grammar;
  return format;
}

OrderedJson SequenceFormat(std::vector<OrderedJson> formats) {
  return WithElements("sequence", std::move(formats));
}

OrderedJson OneOfFormat(std::vector<OrderedJson> formats) {
  return WithElements("or", std::move(formats));
}

OrderedJson OptionalFormat(OrderedJson format) {
  return WithContent("optional", std::move(format));
}

OrderedJson RepeatedFormat(OrderedJson format) { return WithContent("star", std::move(format)); }

OrderedJson TextUntilFormat(std::string_view begin, std::string_view end) {
  return Tag(begin, Format("any_text"), end);
}

OrderedJson TriggeredFormat(const std::vector<std::string>& triggers, std::vector<TagFormat> tags) {
  OrderedJson format = Format("triggered_tags");
  format["triggers"] = triggers;
  format["tags"] = OrderedJson::array();
  for (TagFormat& tag : tags) {
    format["tags"].push_back(Tag(tag.begin, std::move(tag.content), tag.end));
  }
  return format;
}

std::string GrammarText(OrderedJson format) {
  OrderedJson text = Format("structural_tag");
  text["format"] = std::move(format);
  return text.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace graft
