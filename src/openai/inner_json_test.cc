#include "openai/inner_json.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "openai/chat_messages.h"

namespace graft {
namespace {

std::string ListOf(int num_objects) {
  std::string text = "[{}";
  for (int i = 1; i < num_objects; ++i) text += ",{}";
  return text + "]";
}

TEST(InnerJsonTest, TreesAddUpBeforeTheyAreMade) {
  std::vector<int64_t> held;
  const InnerTrees trees([&held](int64_t bytes) {
    held.push_back(bytes);
    return std::nullopt;
  });
  const std::string text = ListOf(1000);
  EXPECT_EQ(ParseInnerJson(text)->size(), 1000u);
  ChatMessages messages;
  OrderedJson calls = OrderedJson::array();
  AddToolCall("id", "f", R"({"a":)" + text + "}", &messages, &calls);
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0], MeasureJson(text).tree_bytes);
  EXPECT_GE(held[1], 2 * held[0]);
  EXPECT_FALSE(trees.error().has_value());
}

TEST(InnerJsonTest, WhatFindsNoRoomIsNotParsed) {
  int num_asked = 0;
  const InnerTrees trees([&num_asked](int64_t /*bytes*/) {
    ++num_asked;
    return std::optional(HttpError(503, "overloaded", "full"));
  });
  EXPECT_EQ(ParseInnerJson("[1]").status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ParseInnerOrderedJson("[1]").status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(num_asked, 1);
  ASSERT_TRUE(trees.error().has_value());
  EXPECT_EQ(trees.error()->http_status, 503);
}

TEST(InnerJsonTest, TogetherTheyAreBoundedAsABodyIs) {
  int64_t held = 0;
  const InnerTrees trees([&held](int64_t bytes) {
    held = bytes;
    return std::nullopt;
  });
  const std::string text = ListOf(250'000);
  int num_parsed = 0;
  while (ParseInnerJson(text).ok()) ++num_parsed;
  EXPECT_GE(num_parsed, 1);
  EXPECT_LE(held, InnerTrees::kBytesMax);
  EXPECT_FALSE(trees.error().has_value()) << "its reader says what is too large";
}

}  // namespace
}  // namespace graft
