#include "keys/shared_places.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace graft {
namespace {

// A lease that notes its loss.
struct Holder {
  Holder(SharedPlaces& places, const std::string& tenant, double weight = 1.0)
      : lease(places, tenant, weight, [this] { ++num_losses; }) {}
  int num_losses = 0;
  PlacesLease lease;
};

TEST(SharedPlacesTest, LeasesAddUpAndComeBack) {
  ManualClock clock;
  SharedPlaces places(1 << 20, clock);
  auto first = std::make_unique<Holder>(places, "");
  EXPECT_TRUE(first->lease.Hold(600'000));
  EXPECT_TRUE(first->lease.Hold(700'000));
  {
    Holder second(places, "");
    EXPECT_TRUE(second.lease.Hold(300'000));
    EXPECT_FALSE(second.lease.Hold(400'000)) << "of one tenant nobody loses";
    EXPECT_EQ(places.num_taken(), 1'000'000);
    EXPECT_FALSE(places.TakeRelease(1'000'000)) << "they are held";
    EXPECT_TRUE(second.lease.Hold(100'000)) << "fewer always";
    EXPECT_EQ(places.num_taken(), 800'000);
  }
  EXPECT_EQ(places.num_taken(), 700'000);
  EXPECT_EQ(first->num_losses, 0);
  first.reset();
  EXPECT_EQ(places.num_taken(), 0);
  EXPECT_FALSE(places.TakeRelease(1'000'001));
  EXPECT_TRUE(places.TakeRelease(1'000'000));
  EXPECT_FALSE(places.TakeRelease(1'000'000)) << "once";
}

TEST(SharedPlacesTest, WhoHasLessTakesTheNewestOfWhoHasMost) {
  ManualClock clock;
  SharedPlaces places(100, clock);
  Holder old(places, "a"), middle(places, "a"), young(places, "a"), other(places, "b");
  ASSERT_TRUE(old.lease.Hold(30) && middle.lease.Hold(30) && young.lease.Hold(30));
  ASSERT_TRUE(other.lease.Hold(10));
  Holder more(places, "a");
  EXPECT_FALSE(more.lease.Hold(1)) << "who has most takes from nobody";
  Holder taker(places, "c");
  ASSERT_TRUE(taker.lease.Hold(35));
  EXPECT_EQ(young.num_losses, 1);
  EXPECT_EQ(middle.num_losses, 1) << "one was too few";
  EXPECT_EQ(old.num_losses, 0);
  EXPECT_EQ(other.num_losses, 0) << "who has little is not asked";
  EXPECT_TRUE(young.lease.is_lost());
  EXPECT_FALSE(young.lease.Hold(1)) << "lost for good";
  EXPECT_TRUE(young.lease.Hold(0));
  EXPECT_EQ(places.num_taken(), 75);
  Holder again(places, "a");
  EXPECT_TRUE(again.lease.Hold(25));
  EXPECT_FALSE(again.lease.Hold(26)) << "a would have more than c then";
  EXPECT_EQ(taker.num_losses, 0);
  EXPECT_EQ(young.num_losses, 1) << "told once";
}

TEST(SharedPlacesTest, NothingIsLostInVain) {
  ManualClock clock;
  SharedPlaces places(100, clock);
  Holder first(places, "a"), second(places, "a"), third(places, "b");
  ASSERT_TRUE(first.lease.Hold(30) && second.lease.Hold(30) && third.lease.Hold(40));
  Holder taker(places, "c");
  EXPECT_FALSE(taker.lease.Hold(55)) << "nearly as much as who has most";
  EXPECT_EQ(first.num_losses + second.num_losses + third.num_losses, 0);
  EXPECT_EQ(places.num_taken(), 100);
}

TEST(SharedPlacesTest, AWeightIsASizeOfTheShare) {
  ManualClock clock;
  SharedPlaces places(10, clock);
  std::deque<Holder> heavy, light;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(heavy.emplace_back(places, "heavy", 4.0).lease.Hold(1));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(light.emplace_back(places, "light", 1.0).lease.Hold(1));
  EXPECT_FALSE(light.emplace_back(places, "light", 1.0).lease.Hold(1)) << "3 are no less than 8/4";
  EXPECT_FALSE(heavy.emplace_back(places, "heavy", 4.0).lease.Hold(1)) << "9/4 are no less than 2";
  ASSERT_TRUE(Holder(places, "third", 1.0).lease.Hold(1)) << "1 is less than either";
}

// 900,000 bytes of the MiB are always held, and each second 100,000 of them become free.
TEST(SharedPlacesTest, WhoFindsNoRoomHearsWhenEnoughWillBeFree) {
  ManualClock clock;
  SharedPlaces places(1 << 20, clock);
  std::deque<Holder> held;
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(held.emplace_back(places, "").lease.Hold(100'000));
  for (int second = 0; second < 100; ++second) {
    clock.AdvanceNs(1'000'000'000);
    held.pop_front();
    ASSERT_TRUE(held.emplace_back(places, "").lease.Hold(100'000));
  }
  const auto refused = [&](int64_t num) {
    Holder holder(places, "");
    EXPECT_TRUE(holder.lease.Hold(80'000));
    EXPECT_FALSE(holder.lease.Hold(200'000));
    const int32_t retry_after_s = holder.lease.Refuse(num);
    EXPECT_EQ(places.num_taken(), 900'000) << "the refused one holds nothing";
    return retry_after_s;
  };
  EXPECT_NEAR(refused(448'576), 3, 1) << "300,000 more than are free";
  EXPECT_NEAR(refused(648'576), 3 + 5, 1) << "behind the first";
  EXPECT_EQ(refused(100'000'000), 60) << "a minute at most";
}

}  // namespace
}  // namespace graft
