#include "cache/adapter_table.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace graft {
namespace {

TEST(AdapterTableTest, HandsOutEverySlotOnceAndThenSaysSo) {
  AdapterTable table(3, [](int32_t) {});
  std::set<int32_t> slots;
  for (int i = 0; i < 3; ++i) slots.insert(*table.Reserve());
  EXPECT_EQ(slots, (std::set<int32_t>{0, 1, 2}));
  const Result<int32_t> none = table.Reserve();
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(none.status().message().find("all 3"), std::string::npos);
  table.Abandon(1);
  EXPECT_EQ(table.num_taken(), 2);
  EXPECT_EQ(*table.Reserve(), 1);
}

TEST(AdapterTableTest, PublishesUnderTheHashOnce) {
  AdapterTable table(2, [](int32_t) {});
  const int32_t first = *table.Reserve();
  const int32_t second = *table.Reserve();
  EXPECT_FALSE(table.Contains("aa"));
  EXPECT_EQ(table.Acquire("aa").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(table.Publish(first, "aa").ok());
  EXPECT_TRUE(table.Contains("aa"));
  EXPECT_EQ(table.Acquire("aa")->slot(), first);
  EXPECT_EQ(table.Publish(second, "aa").code(), StatusCode::kAlreadyExists);
  table.Abandon(second);
}

TEST(AdapterTableTest, RetiringAnIdleAdapterFreesItsSlotAtOnce) {
  std::vector<int32_t> freed;
  AdapterTable table(1, [&](int32_t slot) { freed.push_back(slot); });
  ASSERT_TRUE(table.Publish(*table.Reserve(), "aa").ok());
  table.Retire("unknown");
  EXPECT_TRUE(freed.empty());
  table.Retire("aa");
  EXPECT_EQ(freed, std::vector<int32_t>{0});
  EXPECT_EQ(table.num_taken(), 0);
  EXPECT_EQ(*table.Reserve(), 0);
}

TEST(AdapterTableTest, ARetiredSlotLivesUntilItsLastLease) {
  std::vector<int32_t> freed;
  AdapterTable table(2, [&](int32_t slot) { freed.push_back(slot); });
  ASSERT_TRUE(table.Publish(*table.Reserve(), "aa").ok());
  AdapterLease lease = std::move(table.Acquire("aa")).value();
  AdapterLease other = std::move(table.Acquire("aa")).value();
  table.Retire("aa");
  EXPECT_FALSE(table.Contains("aa"));
  EXPECT_FALSE(table.Acquire("aa").ok());
  // The same content can come back, in another slot, while the old one is still in use.
  const int32_t again = *table.Reserve();
  EXPECT_NE(again, lease.slot());
  ASSERT_TRUE(table.Publish(again, "aa").ok());
  EXPECT_FALSE(table.Reserve().ok());

  AdapterLease moved = std::move(lease);
  EXPECT_EQ(lease.slot(), -1);  // NOLINT(bugprone-use-after-move): a moved-from lease is empty
  EXPECT_EQ(moved.slot(), 0);
  other.Release();
  EXPECT_TRUE(freed.empty());
  moved = AdapterLease();
  EXPECT_EQ(freed, std::vector<int32_t>{0});
  EXPECT_EQ(*table.Reserve(), 0);
}

TEST(AdapterTableDeathTest, MisuseIsABug) {
  AdapterTable table(1, [](int32_t) {});
  EXPECT_DEATH(table.Abandon(0), "not reserved");
  EXPECT_DEATH((void)table.Publish(0, "aa"), "not reserved");
  EXPECT_DEATH(
      {
        AdapterLease lease;
        AdapterTable gone(1, [](int32_t) {});
        (void)gone.Publish(*gone.Reserve(), "aa");
        new AdapterLease(std::move(gone.Acquire("aa")).value());
      },
      "still live");
}

// Content of a slot must stay as a lease found it, whoever retires and reloads meanwhile.
TEST(AdapterTableTest, LeasesPinContentAcrossThreads) {
  constexpr int kSlots = 4;
  std::atomic<int> content[kSlots] = {};
  std::atomic<int> num_freed = 0;
  AdapterTable table(kSlots, [&](int32_t slot) {
    content[slot] = 0;
    ++num_freed;
  });
  std::atomic<bool> stop = false;
  std::atomic<int64_t> num_uses = 0;
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&, i] {
      for (int round = i; !stop; ++round) {
        const int wanted = 1 + round % 3;
        Result<AdapterLease> lease = table.Acquire(std::to_string(wanted));
        if (!lease.ok()) continue;
        for (int look = 0; look < 20; ++look) EXPECT_EQ(content[lease->slot()], wanted);
        ++num_uses;
      }
    });
  }
  int num_loads = 0;
  for (int round = 0; round < 3000 || num_uses < 100; ++round) {
    const int wanted = 1 + round % 3;
    table.Retire(std::to_string(wanted));
    Result<int32_t> slot = table.Reserve();
    if (!slot.ok()) continue;
    content[*slot] = wanted;
    ASSERT_TRUE(table.Publish(*slot, std::to_string(wanted)).ok());
    ++num_loads;
  }
  stop = true;
  for (std::thread& user : users) user.join();
  for (int wanted = 1; wanted <= 3; ++wanted) table.Retire(std::to_string(wanted));
  EXPECT_EQ(num_freed, num_loads);
  EXPECT_EQ(table.num_taken(), 0);
}

}  // namespace
}  // namespace graft
