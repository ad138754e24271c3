#include "request/tenant_places.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(TenantPlacesTest, WhoHasMostForItsWeightGives) {
  TenantPlaces places(6);
  EXPECT_EQ(places.GiverTo("b", 1.0, 0), nullptr) << "there is nobody";
  for (int i = 0; i < 6; ++i) places.Enter("a", 0);
  EXPECT_EQ(places.num_taken(), 6);
  EXPECT_EQ(places.GiverTo("a", 1.0, 0), nullptr) << "nobody else has any";
  ASSERT_NE(places.GiverTo("b", 1.0, 0), nullptr);
  EXPECT_EQ(*places.GiverTo("b", 1.0, 5), "a");
  EXPECT_EQ(places.GiverTo("b", 1.0, 6), nullptr) << "it keeps those";
  for (int i = 0; i < 3; ++i) {
    places.Leave("a", 0);
    places.Enter("b", 0);
  }
  EXPECT_EQ(places.GiverTo("b", 1.0, 0), nullptr) << "both have three";
  places.SetWeight("b", 2.0);
  EXPECT_EQ(places.GiverTo("a", 1.0, 0), nullptr);
  ASSERT_NE(places.GiverTo("b", 4.0, 0), nullptr);
  EXPECT_EQ(*places.GiverTo("c", 1.0, 0), "a");
  for (int i = 0; i < 3; ++i) places.Leave("a", 0);
  EXPECT_EQ(*places.GiverTo("c", 1.0, 0), "b");
  EXPECT_EQ(places.num_taken(), 3);
}

// One of ten places becomes free each second, three times as often a place of "a" as one of "b".
TEST(TenantPlacesTest, EachIsToldByItsOwnPace) {
  constexpr int64_t kSecond = 1'000'000'000;
  TenantPlaces places(10);
  for (int i = 0; i < 10; ++i) places.Enter(i < 5 ? "a" : "b", 0);
  int64_t now_ns = 0;
  const auto go_on = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_ns += kSecond;
      const std::string tenant = i % 4 == 0 ? "b" : "a";
      places.Leave(tenant, now_ns);
      places.Enter(tenant, now_ns);
    }
  };
  go_on(80);
  EXPECT_NEAR(places.RetryAfterS("a", 1.0, now_ns), 1.33, 1.0);
  EXPECT_NEAR(places.RetryAfterS("b", 1.0, now_ns), 4, 1.0);
  EXPECT_NEAR(places.RetryAfterS("b", 1.0, now_ns), 8, 2.0) << "behind the first";
  go_on(8);
  EXPECT_NEAR(places.RetryAfterS("b", 1.0, now_ns), 4, 1.0) << "their turn is over";
  // A third one's pace is not known: a third of all.
  EXPECT_NEAR(places.RetryAfterS("c", 1.0, now_ns), 3, 1.0);
  // A place that is given to another tenant has not become free.
  for (int i = 0; i < 100; ++i) {
    places.Give("b");
    places.Enter("b", now_ns);
  }
  go_on(8);
  EXPECT_NEAR(places.RetryAfterS("b", 1.0, now_ns), 4, 1.0);
}

}  // namespace
}  // namespace graft
