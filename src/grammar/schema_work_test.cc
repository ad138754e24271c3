// What reading a schema takes grows with its bytes, whatever it refers to, and is bounded. Steps
// are counted, not seconds.
#include "grammar/schema_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/json.h"
#include "grammar/schema.h"

namespace graft {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 60;

struct Reading {
  Status status;
  int64_t steps = 0;
};

Reading StepsToRead(const OrderedJson& schema, int64_t steps_max = kNoLimit) {
  SchemaWork work(steps_max);
  Reading reading;
  reading.status = ReadSchema(schema, work).status();
  reading.steps = work.steps();
  return reading;
}

// Twice as large a schema takes twice as many steps.
void ExpectLinear(const std::function<OrderedJson(int)>& make, int n) {
  const Reading one = StepsToRead(make(n));
  const Reading two = StepsToRead(make(2 * n));
  EXPECT_TRUE(one.status.ok()) << one.status.message();
  EXPECT_TRUE(two.status.ok()) << two.status.message();
  EXPECT_LE(two.steps, one.steps * 5 / 2);
  EXPECT_LE(one.steps, 200 * n);
}

OrderedJson Numbered(int begin, int end) {
  OrderedJson values = OrderedJson::array();
  for (int i = begin; i < end; ++i) values.push_back("v" + std::to_string(i));
  return values;
}

TEST(SchemaWorkTest, AChainOfDefinitionsIsLinear) {
  ExpectLinear(
      [](int n) {
        OrderedJson definitions = OrderedJson::parse(R"({"e0":{"type":"null"}})");
        for (int i = 1; i < n; ++i) {
          definitions["e" + std::to_string(i)] = {
              {"anyOf", OrderedJson::array({{{"$ref", "#/$defs/e" + std::to_string(i - 1)}},
                                            {{"type", "string"}}})}};
        }
        return OrderedJson{{"$ref", "#/$defs/e" + std::to_string(n - 1)}, {"$defs", definitions}};
      },
      300);
}

TEST(SchemaWorkTest, AReferenceToManyPropertiesIsFollowedOnce) {
  ExpectLinear(
      [](int n) {
        OrderedJson node = {{"type", "object"}, {"properties", OrderedJson::object()}};
        for (int i = 0; i < n; ++i) {
          node["properties"]["p" + std::to_string(i)] = {{"$ref", "#/$defs/node"}};
        }
        return OrderedJson{{"$ref", "#/$defs/node"}, {"$defs", {{"node", node}}}};
      },
      400);
}

TEST(SchemaWorkTest, PropertiesAndWhatIsRequiredAreLinear) {
  ExpectLinear(
      [](int n) {
        OrderedJson schema = {{"required", Numbered(0, n)}};
        OrderedJson& properties = schema["properties"] = OrderedJson::object();
        for (int i = n / 2; i < n; ++i) properties["v" + std::to_string(i)] = {{"type", "null"}};
        return schema;
      },
      400);
}

TEST(SchemaWorkTest, AlternativesThatDifferByTheirValuesAreLinear) {
  ExpectLinear(
      [](int n) {
        return OrderedJson{{"oneOf", OrderedJson::array({{{"enum", Numbered(0, n)}},
                                                         {{"enum", Numbered(n, 2 * n)}}})}};
      },
      3000);
  ExpectLinear(
      [](int n) {
        OrderedJson options = OrderedJson::array({{{"type", "null"}}});
        for (int i = 0; i < n; ++i) {
          options.push_back({{"properties", {{"kind", {{"const", i}}}}},
                             {"required", OrderedJson::array({"kind"})}});
        }
        return OrderedJson{{"oneOf", options}};
      },
      300);
}

TEST(SchemaWorkTest, ValuesThatBothSidesHaveAreLinear) {
  ExpectLinear(
      [](int n) {
        return OrderedJson{{"allOf", OrderedJson::array({{{"enum", Numbered(0, n)}},
                                                         {{"enum", Numbered(n / 2, 2 * n)}}})}};
      },
      3000);
}

// Each alternative has all the values again.
TEST(SchemaWorkTest, WhatMultipliesEndsWithTheBudget) {
  OrderedJson options = OrderedJson::array();
  for (int i = 0; i < 600; ++i) options.push_back({{"$ref", "#/$defs/e"}, {"type", "string"}});
  const OrderedJson schema = {{"$defs", {{"e", {{"enum", Numbered(0, 20000)}}}}},
                              {"anyOf", options}};
  const Reading reading = StepsToRead(schema, SchemaWork::kStepsMax);
  EXPECT_EQ(reading.status.code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(reading.status.message().starts_with("the schema: is too large"))
      << reading.status.message();
  // No more than one value over it.
  EXPECT_LE(reading.steps, SchemaWork::kStepsMax + 30000);
}

// One property that many say something of, each something else.
TEST(SchemaWorkTest, ManySchemasOfOnePropertyNestNoDeeper) {
  OrderedJson members = OrderedJson::array();
  for (int i = 0; i < 20000; ++i) {
    members.push_back({{"properties", {{"a", {{"minLength", i % 4096}}}}}});
  }
  const Reading reading = StepsToRead({{"allOf", members}}, SchemaWork::kStepsMax);
  EXPECT_EQ(reading.status.code(), StatusCode::kUnimplemented);
  members.erase(members.begin() + 50, members.end());
  EXPECT_TRUE(StepsToRead({{"allOf", members}}, SchemaWork::kStepsMax).status.ok());
}

// `text` stands in one definition, and `num_uses` places refer to it.
OrderedJson UsedOften(const OrderedJson& definition, int num_uses) {
  OrderedJson options = OrderedJson::array();
  for (int i = 0; i < num_uses; ++i) {
    options.push_back({{"$ref", "#/$defs/d"}, {"type", definition["type"]}});
  }
  return {{"$defs", {{"d", definition}}}, {"anyOf", options}};
}

void ExpectTooMuch(const OrderedJson& schema) {
  const Reading reading = StepsToRead(schema, SchemaWork::kStepsMax);
  EXPECT_EQ(reading.status.code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(reading.status.message().starts_with("the schema: is too large"))
      << reading.status.message();
}

// What is written of a pattern counts: all strings that a pattern of names lists, and a pattern of
// strings once for each place.
TEST(SchemaWorkTest, PatternsCountByWhatIsWrittenOfThem) {
  const auto names = [](const std::string& pattern) {
    return OrderedJson{{"type", "object"}, {"patternProperties", {{pattern, true}}}};
  };
  const std::string two = "(a|b)";
  const std::string choices = two + two + two + two + two + two;  // 64 strings
  ExpectLinear([&](int n) { return names("^" + std::string(static_cast<size_t>(n), 'x') + "$"); },
               10000);
  ExpectLinear(
      [&](int n) { return names("^" + choices + std::string(static_cast<size_t>(n), 'x') + "$"); },
      10000);
  EXPECT_GE(StepsToRead(names("^" + choices + std::string(32000, 'x') + "$")).steps, 64000);
  ExpectTooMuch(UsedOften(names("^" + choices + std::string(32000, 'x') + "$"), 20));

  const OrderedJson string = {{"type", "string"}, {"pattern", std::string(32000, 'x')}};
  EXPECT_GE(StepsToRead(UsedOften(string, 100)).steps, 100 * 2000);
  ExpectTooMuch(UsedOften(string, 1000));
}

// All of them have all properties, and no property's values tell them apart.
TEST(SchemaWorkTest, LooksAtTheValuesOfAlternativesCount) {
  OrderedJson options = OrderedJson::array();
  const int num_options = 20;
  const int num_names = 30;
  for (int i = 0; i < num_options; ++i) {
    OrderedJson option = {{"properties", OrderedJson::object()},
                          {"required", Numbered(0, num_names)}};
    for (int k = 0; k < num_names; ++k) {
      // The last two share a value.
      OrderedJson values = Numbered(i * 100, i * 100 + 100);
      if (i == num_options - 1) values.push_back("v0");
      option["properties"]["v" + std::to_string(k)] = {{"enum", values}};
    }
    options.push_back(option);
  }
  const int64_t read = StepsToRead({{"anyOf", options}}).steps;
  const int64_t compared = StepsToRead({{"oneOf", options}}).steps - read;
  // To note the values is one step for each, and to look at all of them another one.
  EXPECT_GE(compared, 2 * num_options * num_names * 100);
}

TEST(SchemaWorkTest, OneBudgetHoldsForSeveralSchemas) {
  SchemaWork work(2000);
  const OrderedJson schema = {{"enum", Numbered(0, 300)}};
  int num_read = 0;
  while (ReadSchema(schema, work).ok()) ++num_read;
  EXPECT_GT(num_read, 0);
  EXPECT_LT(num_read, 7);
  EXPECT_FALSE(ReadSchema(true, work).ok());
}

TEST(SchemaWorkTest, ItStopsWhenItIsTold) {
  std::atomic<bool> stops{false};
  SchemaWork work(&stops);
  EXPECT_TRUE(ReadSchema({{"type", "string"}}, work).ok());
  stops = true;
  EXPECT_EQ(ReadSchema({{"type", "string"}}, work).status().code(), StatusCode::kCancelled);
}

TEST(SchemaWorkTest, EqualValuesAreEqualHoweverTheyAreSpelled) {
  EXPECT_FALSE(ReadSchema(OrderedJson::parse(R"({"oneOf":[{"const":1.0},{"const":1}]})")).ok());
  EXPECT_FALSE(ReadSchema(OrderedJson::parse(
                              R"({"oneOf":[{"const":{"a":1,"b":2}},{"const":{"b":2,"a":1}}]})"))
                   .ok());
  EXPECT_TRUE(ReadSchema(OrderedJson::parse(R"({"oneOf":[{"const":"1"},{"const":1}]})")).ok());
}

}  // namespace
}  // namespace graft
