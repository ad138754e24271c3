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
  EXPECT_FALSE(queue.Has([](int party) { return party > 3; }));
  const auto taken = queue.TakeFirstOnes([](const std::string& one) { return one != "b2"; });
  EXPECT_EQ(taken, (std::vector<std::string>{"a3", "c2"}));
  EXPECT_EQ(queue.TakeNext(), "b2");
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace graft
