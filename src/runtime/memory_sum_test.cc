#include "runtime/memory_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/buffer.h"

namespace graft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMib = int64_t{1} << 20;

TEST(BytesTextTest, RoundsUpBelowAGib) {
  EXPECT_EQ(BytesText(0), "0 MiB");
  EXPECT_EQ(BytesText(1), "1 MiB");
  EXPECT_EQ(BytesText(kMib + 1), "2 MiB");
  EXPECT_EQ(BytesText(1536 * kMib), "1.5 GiB");
  EXPECT_EQ(GibToBytes(0.5), 512 * kMib);
  EXPECT_GT(GibToBytes(1e300), 0) << "no overflow";
}

TEST(MemoryBudgetTest, WhatIsPromisedIsTakenThoughNobodyWroteToIt) {
  const MemoryBudget budget({}, 0.25);
  const int64_t before = budget.LeftOnDevice();
  EXPECT_LE(before, 256 * kMib);
  const Buffer untouched(100 * kMib);
  EXPECT_EQ(budget.LeftOnDevice(), before - 100 * kMib);
  EXPECT_EQ(budget.LeftOnHost(), budget.LeftOnDevice()) << "a CPU has one memory";
  const Buffer more(200 * kMib);
  EXPECT_EQ(budget.LeftOnDevice(), 0);
  EXPECT_THAT(budget.DeviceText(), HasSubstr("0 MiB are left of --memory-gib 0.25 on cpu"));
}

TEST(MemoryBudgetTest, WithoutALimitItIsWhatIsFree) {
  const MemoryBudget budget(Device{});
  EXPECT_GT(budget.LeftOnDevice(), 0);
  EXPECT_THAT(budget.DeviceText(), HasSubstr("are free on cpu"));
}

TEST(MemorySumTest, SaysEveryTermFromTheLargestOn) {
  MemorySum sum(Device{});
  sum.Add("logits (--sequences-max)", 10 * kMib);
  sum.Add("pool (--pool-gib)", 3072 * kMib);
  sum.AddOnHost("adapters (--host-gib)", 20 * kMib);
  sum.Add("logits (--sequences-max)", 10 * kMib);
  sum.Add("nothing", int64_t{0});
  EXPECT_EQ(sum.on_device(), 3112 * kMib);
  EXPECT_EQ(sum.on_host(), 0) << "on a CPU it is the device's";
  const Status refused = sum.Check(MemoryBudget({}, 0.5));
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("3.0 GiB are needed"), HasSubstr("of --memory-gib 0.5 on cpu\n"),
                    HasSubstr("\n   3.0 GiB  pool (--pool-gib)\n    20 MiB  2 x logits "
                              "(--sequences-max)\n    20 MiB  adapters (--host-gib)\nlower what"),
                    Not(HasSubstr("nothing"))));
  EXPECT_EQ(sum.ToString(), "3.0 GiB = 3.0 GiB pool (--pool-gib) + 40 MiB of smaller things");
}

TEST(MemorySumTest, WhatFitsIsFine) {
  MemorySum sum(Device{});
  sum.Add("logits", 10 * kMib);
  EXPECT_TRUE(sum.Check(MemoryBudget({}, 0.1)).ok());
  EXPECT_TRUE(MemorySum(Device{}).Check(MemoryBudget({}, 0.1)).ok());
}

// The two memories of a machine with a GPU, as far as a sum can be made without one.
TEST(MemorySumTest, AGpuHasAMemoryOfItsOwn) {
  MemorySum sum({DeviceKind::kCuda});
  sum.Add("tables", BytesNeeded{.on_device = 3, .on_host = 4});
  sum.AddOnHost("adapters", 5);
  EXPECT_EQ(sum.on_device(), 3);
  EXPECT_EQ(sum.on_host(), 9);
  EXPECT_EQ(sum.ToString(), "1 MiB = 1 MiB tables");
  EXPECT_EQ(sum.HostToString(), "1 MiB = 1 MiB adapters + 1 MiB tables");
}

}  // namespace
}  // namespace graft
