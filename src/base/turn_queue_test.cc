#include "base/turn_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace graft {
namespace {

TEST(TurnQueueTest, PartiesTakeTurnsAndOrdersOfOneStayInOrder) {
  TurnQueue<int, std::string> queue;
  for (const char* const order : {"a1", "a2", "a3"}) queue.Push(1, order);
  queue.Push(2, "b1");
  queue.Push(3, "c1");
  queue.Push(3, "c2");
  EXPECT_EQ(queue.TakeNext(), "a1");
  EXPECT_EQ(queue.TakeNext([](int party) { return party != 2; }), "c1");
  EXPECT_EQ(queue.TakeNext(), "b1");
  queue.Push(2, "b2");
  EXPECT_EQ(queue.TakeNext(), "a2");
  EXPECT_FALSE(queue.TakeNext([](int party) { return party > 3; }).has_value());
  for (const char* const order : {"c2", "b2", "a3"}) EXPECT_EQ(queue.TakeNext(), order);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace graft
