// What of JSON Schema is followed, what is refused and in which words.
#include "grammar/schema.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "grammar/schema_pattern.h"

namespace graft {
namespace {

std::string Read(const std::string& schema) {
  const Result<OrderedJson> read = ReadSchema(OrderedJson::parse(schema));
  return read.ok() ? read->dump() : read.status().message();
}

TEST(SchemaTest, ObjectsWithNamesHaveNoOthersAndKeepTheirOrder) {
  EXPECT_EQ(Read(R"({"type":"object","title":"T","properties":{"zeta":{"type":"string"},
                     "age":{"type":"integer","description":"years"}},"required":["age"]})"),
            R"({"type":"object","properties":{"zeta":{"type":"string"},"age":{"type":"integer"}},)"
            R"("required":["age"],"additionalProperties":false})");
  EXPECT_EQ(
      Read(R"({"properties":{"a":true},"required":["b"],"additionalProperties":{"type":"null"}})"),
      R"({"type":"object","properties":{"a":{},"b":{"type":"null"}},"required":["b"],)"
      R"("additionalProperties":false})");
  EXPECT_EQ(Read(R"({"type":"object","properties":{}})"),
            R"({"type":"object","additionalProperties":false})");
  EXPECT_EQ(Read(R"({"type":"object"})"), R"({"type":"object","additionalProperties":true})");
  EXPECT_EQ(Read(R"({"properties":{"a":false,"b":{}}})"),
            R"({"type":"object","properties":{"b":{}},"additionalProperties":false})");
}

TEST(SchemaTest, WhatIsNotFollowedIsRefusedByItsPlace) {
  const char* const cases[][2] = {
      {R"({"properties":{"tags":{"type":"array","uniqueItems":true}}})",
       "properties.tags.uniqueItems: "},
      {R"({"type":"array","contains":{}})", "contains: "},
      {R"({"not":{}})", "not: "},
      {R"({"if":{},"then":{}})", "if: "},
      {R"({"dependentRequired":{}})", "dependentRequired: "},
      {R"({"items":{"type":"string","pattern":"a","maxLength":3}})", "items.pattern: "},
      {R"x({"anyOf":[{"type":"null"},{"type":"string","pattern":"(?=a)"}]})x",
       "anyOf[1].pattern: "},
      {R"({"type":"integer","multipleOf":0.5})", "multipleOf: "},
      {R"({"type":"integer","multipleOf":7,"minimum":3})", "multipleOf: "},
      {R"({"type":"number","minimum":0.00000012})", "minimum: "},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "oneOf: "},
      {R"({"$ref":"https://example.com/x.json"})", "$ref: "},
      {R"({"$ref":"#/$defs/none"})", "$ref: "},
      {R"({"$ref":"#"})", "$ref: "},
      {R"({"type":"object","minProperties":2})", "minProperties: "},
      {R"({"patternProperties":{"a":{},"b":{}}})", "patternProperties: "},
      {R"x({"patternProperties":{"(?=a)":{}}})x", "patternProperties.pattern: "},
      {R"({"properties":{"a":{}},"patternProperties":{"b":{}}})", "patternProperties: "},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", "pattern: "},
      {R"({"allOf":[{"additionalProperties":false},{"properties":{"a":{}}}]})",
       "additionalProperties: "},
      {R"({"enum":["a","b"],"maxLength":1})", "maxLength: "},
      {R"({"enum":[12345678901234567890]})", "enum: "},
      {R"({"properties":{"a":{"type":"strin"}}})", "properties.a.type: "},
      {R"({"properties":3})", "properties: "},
      {R"({"properties":{"a":{"type":"string","enum":[1]}},"required":["a"]})", "properties.a: "},
      {R"(false)", "the schema: "},
      {R"({"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]})",
       "the schema: "},
  };
  for (const auto& [schema, message] : cases) {
    const std::string read = Read(schema);
    EXPECT_EQ(read.substr(0, std::string(message).size()), message) << schema << " gave " << read;
  }
}

TEST(SchemaTest, ReferencesLeadToDefinitions) {
  EXPECT_EQ(Read(R"({"$ref":"#/$defs/a~1b%25","$defs":{"a/b%":{"type":"null"}}})"),
            R"({"$ref":"#/$defs/d0","$defs":{"d0":{"type":"null"}}})");
  EXPECT_EQ(
      Read(R"({"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}})"),
      R"({"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/d0"},{"type":"null"}]}},)"
      R"("additionalProperties":false,"$defs":{"d0":{"type":"object","properties":{"next":)"
      R"({"anyOf":[{"$ref":"#/$defs/d0"},{"type":"null"}]}},"additionalProperties":false}}})");
  EXPECT_EQ(
      Read(R"({"$ref":"#/$defs/a","maximum":3,"$defs":{"a":{"type":"integer","minimum":1}}})"),
      R"({"type":"integer","minimum":1,"maximum":3})");
}

TEST(SchemaTest, WhatIsSaidTwiceIsPutTogether) {
  EXPECT_EQ(Read(R"({"allOf":[{"type":"number","minimum":1},{"type":"integer","minimum":2}],)"
                 R"("maximum":9.5})"),
            R"({"type":"integer","minimum":2,"maximum":9})");
  EXPECT_EQ(Read(R"({"type":"object","properties":{"a":{},"b":{}},)"
                 R"("anyOf":[{"required":["a"]},{"required":["b"]}]})"),
            R"({"anyOf":[{"type":"object","properties":{"a":{},"b":{}},"required":["a"],)"
            R"("additionalProperties":false},{"type":"object","properties":{"a":{},"b":{}},)"
            R"("required":["b"],"additionalProperties":false}]})");
  EXPECT_EQ(Read(R"({"const":3,"type":["string","integer"]})"), R"({"enum":[3]})");
  EXPECT_EQ(Read(R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},
                     {"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})")
                .substr(0, 9),
            R"({"anyOf":)");
}

TEST(SchemaTest, BoundsAreWholeWhereIntegersAre) {
  EXPECT_EQ(Read(R"({"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":2.5})"),
            R"({"type":"integer","minimum":1,"maximum":2})");
  EXPECT_EQ(Read(R"({"type":"number","multipleOf":5})"), R"({"type":"integer","multipleOf":5})");
  EXPECT_EQ(Read(R"({"maxLength":4})"), R"({"type":"string","maxLength":4})");
  EXPECT_EQ(Read(R"({"format":"date"})"), R"({"type":"string","format":"date"})");
  EXPECT_EQ(Read(R"({"type":"string","format":"color"})"), R"({"type":"string"})");
}

TEST(SchemaTest, NestingAndSizeAreBounded) {
  std::string deep = "{}";
  for (int i = 0; i < 200; ++i) deep = R"({"items":)" + deep + "}";
  EXPECT_NE(Read(deep).find("too deep"), std::string::npos);
  std::string doubling = R"({"$defs":{"a0":{"type":"object","properties":{"x":{}}})";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "{\"$ref\":\"#/$defs/a" + std::to_string(i - 1) + "\"}";
    doubling += ",\"a" + std::to_string(i) + "\":{\"allOf\":[" + before + "," + before + "]}";
  }
  EXPECT_NE(Read(doubling + R"(},"$ref":"#/$defs/a29"})").find("too large"), std::string::npos);
}

// A name that a pattern lists can come once, as a property does.
TEST(SchemaTest, PatternsThatListTheirNamesArePropertiesOfThem) {
  EXPECT_EQ(Read(R"({"patternProperties":{"^(a|b\\.c)$":{"type":"null"}},"minProperties":2})"),
            R"({"type":"object","properties":{"a":{"type":"null"},"b.c":{"type":"null"}},)"
            R"("additionalProperties":false,"minProperties":2})");
  EXPECT_EQ(Read(R"({"patternProperties":{"^x":{"type":"null"}}})"),
            R"({"type":"object","patternProperties":{"^(x[^\"\\\\]*)$":{"type":"null"}},)"
            R"("additionalProperties":false})");
}

TEST(SchemaPatternTest, MatchesWhereItsAnchorsSayAndNeedsNoEscapeInJson) {
  const std::string any = "[^\"\\\\]*";
  const auto read = [](const std::string& pattern) {
    const Result<std::string> result = ReadPattern(pattern);
    return result.ok() ? *result : result.status().message();
  };
  EXPECT_EQ(read("^[a-z]+$"), "^([a-z]+)$");
  EXPECT_EQ(read("a|b"), "^(" + any + "a" + any + "|" + any + "b" + any + ")$");
  EXPECT_EQ(read("^a|b$"), "^(a" + any + "|" + any + "b)$");
  EXPECT_EQ(read("^$|^(a|b)$"), "^(|(a|b))$");
  EXPECT_EQ(read(""), "^(" + any + ")$");
  EXPECT_EQ(read("^"), "^(" + any + ")$");
  EXPECT_EQ(read("$"), "^(" + any + ")$");
  EXPECT_EQ(read(R"(\d{3})"), "^(" + any + "[0-9]{3}" + any + ")$");
  EXPECT_EQ(read(R"(^\d{3}-\w*\.(?:x|y)?$)"), R"(^([0-9]{3}-[a-zA-Z0-9_]*\.(x|y)?)$)");
  EXPECT_EQ(read(R"(^[^a\]]$)"), R"(^([^a\]])$)");
  EXPECT_EQ(read(R"(^[^\w !-,:-@]$)"), R"(^([\-\.\/\[\]\^`\{\|\}~])$)");
  EXPECT_EQ(read("^}$"), R"(^(\})$)");
  for (const char* refused : {"a\"", "\\\\", "(?=a)", "a*?", "\\bx", "x\\1", "(^a|b)", "(a$)b",
                              "a^b", "a$b", "\xc3\xa9", "\\p{L}", "[\\W]x[^\\S]", "a{9999}"}) {
    EXPECT_FALSE(ReadPattern(refused).ok()) << refused;
  }
  for (const char* wrong : {"(", ")", "[a", "*a", "a**", "[z-a]", "a{2,1}", "\\", "a{", "a|*"}) {
    EXPECT_EQ(ReadPattern(wrong).status().code(), StatusCode::kInvalidArgument) << wrong;
  }
}

std::optional<std::vector<std::string>> StringsOf(std::string_view pattern) {
  SchemaWork work;
  return StringsOfPattern(pattern, work).value();
}

TEST(SchemaPatternTest, ListsTheStringsOfSimplePatterns) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(StringsOf("^x$"), Strings({"x"}));
  EXPECT_EQ(StringsOf("^a(b|c(d|))$"), Strings({"ab", "acd", "ac"}));
  EXPECT_EQ(StringsOf(R"(^(?:a\.|\$|a\.)$)"), Strings({"a.", "$"}));
  for (const char* pattern :
       {"x", "^x", "x$", "^x*$", "^[ab]$", "^x.$", "^\\d$", "^a$|^b$", "^(a$", "^a)$", "^a|b$",
        "^(a|b){2}$", "^$x$", "^(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)$"}) {
    EXPECT_FALSE(StringsOf(pattern).has_value()) << pattern;
  }
}

}  // namespace
}  // namespace graft
