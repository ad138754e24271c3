#include "engine/served_time.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

struct Party {
  Share share;
};

TEST(ServedTimeTest, WhoComesBackHasNotSavedUpTime) {
  ServedTime<Party> time;
  Party a, b;
  time.Enter(a);
  a.share.Charge(1000);
  time.Enter(b);
  EXPECT_EQ(b.share.served, 1000);  // not 0: it would have the machine for itself for a long time
}

TEST(ServedTimeTest, WhoComesBackKeepsItsDebts) {
  ServedTime<Party> time;
  Party a, b;
  time.Enter(a);
  time.Enter(b);
  a.share.Charge(1000);
  b.share.Charge(10);
  time.Leave(a);
  EXPECT_FALSE(time.IsPast(a));
  time.Enter(a);
  EXPECT_EQ(a.share.served, 1000);
}

TEST(ServedTimeTest, DebtsArePastOnceTheOthersWereServedAsMuch) {
  ServedTime<Party> time;
  Party a, b, c;
  time.Enter(a);
  time.Enter(b);
  a.share.Charge(100);
  time.Leave(a);
  b.share.Charge(500);
  time.Enter(c);
  EXPECT_EQ(c.share.served, 500);
  EXPECT_TRUE(time.IsPast(a));
  EXPECT_FALSE(time.IsPast(b));  // it has requests
}

TEST(ServedTimeTest, WhereNobodyIsLeftAllIsPast) {
  ServedTime<Party> time;
  Party a;
  time.Enter(a);
  a.share.Charge(100);
  time.Leave(a);
  EXPECT_TRUE(time.IsPast(a));
}

TEST(ServedTimeTest, AWeightOfTwoIsServedTwice) {
  Share light, heavy;
  heavy.weight = 2.0;
  light.Charge(100);
  heavy.Charge(200);
  EXPECT_EQ(light.served, heavy.served);
}

TEST(ServedTimeTest, ManyComeAndGo) {
  ServedTime<Party> time;
  std::vector<Party> parties(50);
  for (size_t i = 0; i < 1000; ++i) {
    Party& party = parties[i * 7 % parties.size()];
    if (party.share.num_in_flight > 1) {
      time.Leave(party);
      time.Leave(party);
    } else {
      time.Enter(party);
    }
    party.share.Charge(static_cast<double>(i % 5));
    size_t num_active = 0;
    for (const Party& one : parties) num_active += one.share.num_in_flight > 0 ? 1 : 0;
    ASSERT_EQ(time.active().size(), num_active);
    for (const Party* const one : time.active()) ASSERT_GT(one->share.num_in_flight, 0);
  }
}

TEST(MayTakeTest, TheTakerHasNoMoreThanTheGiverAfterwards) {
  Share taker, giver;
  EXPECT_TRUE(MayTake(taker, 1, giver, 1));
  EXPECT_FALSE(MayTake(taker, 2, giver, 1));
  giver.weight = 2.0;  // half as many are its share
  EXPECT_FALSE(MayTake(taker, 2, giver, 3));
  EXPECT_TRUE(MayTake(taker, 2, giver, 4));
}

TEST(MayTakeTest, WhoWasServedMoreTakesNothing) {
  Share taker, giver;
  taker.Charge(5);
  EXPECT_FALSE(MayTake(taker, 1, giver, 100));
  giver.Charge(5);
  EXPECT_TRUE(MayTake(taker, 1, giver, 100));
}

}  // namespace
}  // namespace graft
