#include "cache/idle_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/random.h"

namespace graft {
namespace {

TEST(IdleOrderTest, TheLongestUnusedIsFirstForEachHolder) {
  IdleOrder order;
  EXPECT_EQ(order.Oldest(0), -1);
  EXPECT_EQ(order.Oldest(kNobody), -1);
  order.Put(5, 0, 10);
  order.Put(7, 0, 11);
  order.Put(6, 2, 3);
  EXPECT_EQ(order.Oldest(0), 5);
  EXPECT_EQ(order.Oldest(1), -1);
  EXPECT_EQ(order.Oldest(2), 6);
  EXPECT_EQ(order.HolderOf(6), 2);
  EXPECT_FALSE(order.Has(4));
  order.Remove(5);
  EXPECT_EQ(order.Oldest(0), 7);
  EXPECT_EQ(order.size(), 2);
  EXPECT_EQ(order.CheckIntegrity().ToString(), "OK");
}

TEST(IdleOrderTest, OneThatWasUsedEarlierGoesInFrontAndEqualOnesBehind) {
  IdleOrder order;
  order.Put(1, 0, 10);
  order.Put(2, 0, 20);
  order.Put(3, 0, 10);
  EXPECT_EQ(order.num_visits(), 1) << "2 alone was used later";
  for (const int32_t item : {1, 3, 2}) {
    EXPECT_EQ(order.Oldest(0), item);
    order.Remove(item);
  }
  EXPECT_EQ(order.size(), 0);
}

// Against a list that is sorted anew by time of use, then by when items entered.
TEST(IdleOrderTest, RandomChangesKeepTheOrder) {
  Random random(1);
  IdleOrder order;
  std::map<int32_t, std::tuple<uint64_t, int, int32_t>> items;  // time, entry, holder
  for (int step = 0; step < 3000; ++step) {
    const auto item = static_cast<int32_t>(random.Below(40));
    if (items.erase(item) > 0) {
      order.Remove(item);
    } else {
      const auto holder = static_cast<int32_t>(random.Below(3));
      const uint64_t used_at = static_cast<uint64_t>(step) / 10 + random.Below(4);
      order.Put(item, holder, used_at);
      items[item] = {used_at, step, holder};
    }
    ASSERT_EQ(order.CheckIntegrity().ToString(), "OK");
    ASSERT_EQ(order.size(), static_cast<int32_t>(items.size()));
    for (int32_t holder = 0; holder < 3; ++holder) {
      int32_t oldest = -1;
      for (const auto& [one, entry] : items) {
        if (std::get<2>(entry) != holder) continue;
        if (oldest < 0 || entry < items[oldest]) oldest = one;
      }
      ASSERT_EQ(order.Oldest(holder), oldest) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace graft
