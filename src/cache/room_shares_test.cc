#include "cache/room_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"

namespace graft {
namespace {

constexpr int64_t kBytesOfPage = 1000;
constexpr int64_t kShareKeptNs = 1'000'000;

class RoomSharesTest : public testing::Test {
 protected:
  ~RoomSharesTest() override { EXPECT_EQ(shares_.CheckIntegrity().ToString(), "OK"); }
  // A tenant with so many pages, all of them cached.
  int32_t AddWithPages(const std::string& tenant, int32_t num_pages, double weight = 1.0) {
    const int32_t holder = shares_.Enter(tenant, weight);
    shares_.AddPages(holder, num_pages);
    shares_.SetEvictable(holder, Evictable::kPrefixes, true);
    return holder;
  }

  ManualClock clock_;
  RoomShares shares_{clock_, kBytesOfPage, kShareKeptNs};
};

TEST_F(RoomSharesTest, WhoHoldsMostForItsWeightGives) {
  EXPECT_EQ(shares_.GiverOfPages(true, true), kNobody);
  const int32_t light = AddWithPages("light", 30);
  const int32_t heavy = AddWithPages("heavy", 90, 4.0);
  EXPECT_EQ(shares_.GiverOfPages(true, false), light);
  EXPECT_EQ(shares_.GiverOfPages(false, true), kNobody) << "nobody has idle adapters";
  shares_.AddPages(heavy, 60);
  EXPECT_EQ(shares_.GiverOfPages(true, true), heavy);
  shares_.SetEvictable(heavy, Evictable::kPrefixes, false);
  EXPECT_EQ(shares_.GiverOfPages(true, true), light) << "the other has nothing to give";
}

TEST_F(RoomSharesTest, AdaptersCountAsPagesForPagesAndAsSlotsForSlots) {
  const int32_t pages = AddWithPages("pages", 20);
  shares_.AddAdapter(pages, 10, 1);
  shares_.SetEvictable(pages, Evictable::kAdapters, true);
  const int32_t adapters = shares_.Enter("adapters", 1.0);
  for (int i = 0; i < 3; ++i) shares_.AddAdapter(adapters, 1000, 1);
  shares_.SetEvictable(adapters, Evictable::kAdapters, true);
  EXPECT_EQ(shares_.GiverOfPages(false, true), pages);
  EXPECT_EQ(shares_.GiverOfSlot(), adapters);
  shares_.AddAdapter(adapters, 40'000, 1);
  EXPECT_EQ(shares_.GiverOfPages(true, true), adapters);
}

TEST_F(RoomSharesTest, WhoLeftLongAgoGivesFirst) {
  const int32_t large = AddWithPages("large", 100);
  const int32_t small = AddWithPages("small", 1);
  const int32_t smallest = AddWithPages("smallest", 1);
  shares_.Leave(smallest);
  clock_.AdvanceNs(kShareKeptNs / 2);
  shares_.Leave(small);
  clock_.AdvanceNs(kShareKeptNs / 2 - 1);
  EXPECT_EQ(shares_.GiverOfPages(true, true), large);
  clock_.AdvanceNs(1);
  EXPECT_EQ(shares_.GiverOfPages(true, true), smallest);
  clock_.AdvanceNs(kShareKeptNs);
  EXPECT_EQ(shares_.GiverOfPages(true, true), smallest) << "it left first";
  // A tenant that comes back has its share again.
  EXPECT_EQ(shares_.Enter("smallest", 1.0), smallest);
  EXPECT_EQ(shares_.GiverOfPages(true, true), small);
  EXPECT_EQ(shares_.Enter("small", 1.0), small);
  EXPECT_EQ(shares_.GiverOfPages(true, true), large);
}

TEST_F(RoomSharesTest, WhoHasNothingIsForgotten) {
  const int32_t first = AddWithPages("first", 1);
  shares_.AddFetch(first, 1);
  shares_.Leave(first);
  shares_.SetEvictable(first, Evictable::kPrefixes, false);
  shares_.AddPages(first, -1);
  EXPECT_EQ(shares_.num_holders(), 1);
  shares_.AddFetch(first, -1);
  EXPECT_EQ(shares_.num_holders(), 0);
  EXPECT_EQ(shares_.Enter("second", 1.0), first) << "the number is free";
}

TEST(HeaviestOrderTest, TheFirstIsTheHeaviestToAnEighth) {
  HeaviestOrder order;
  std::vector<double> held(50, 0.0);
  Random random(1);
  for (int change = 0; change < 5000; ++change) {
    const auto party = static_cast<size_t>(random.Below(held.size()));
    const bool leaves = random.Below(4) == 0;
    held[party] = leaves ? 0.0 : 1.0 + static_cast<double>(random.Below(uint64_t{1} << 40));
    if (leaves) {
      order.Remove(static_cast<int32_t>(party));
    } else {
      order.Put(static_cast<int32_t>(party), HeaviestOrder::BucketOf(held[party]));
    }
    const double most = *std::max_element(held.begin(), held.end());
    const int32_t first = order.First();
    ASSERT_EQ(first < 0, most == 0.0);
    if (first >= 0) {
      ASSERT_GE(held[static_cast<size_t>(first)] * 1.125, most);
    }
  }
  EXPECT_EQ(HeaviestOrder::BucketOf(0.0), 0);
  EXPECT_EQ(HeaviestOrder::BucketOf(1.0), 1);
  EXPECT_LT(HeaviestOrder::BucketOf(1e300), HeaviestOrder::kFirstBucket);
}

}  // namespace
}  // namespace graft
