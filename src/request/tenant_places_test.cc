#include "request/tenant_places.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(TenantPlacesTest, WhoHasMostForItsWeightGives) {
  TenantPlaces places;
  EXPECT_EQ(places.GiverTo("b", 1.0, 0), nullptr) << "there is nobody";
  for (int i = 0; i < 6; ++i) places.Enter("a");
  EXPECT_EQ(places.num_taken(), 6);
  EXPECT_EQ(places.GiverTo("a", 1.0, 0), nullptr) << "nobody else has any";
  ASSERT_NE(places.GiverTo("b", 1.0, 0), nullptr);
  EXPECT_EQ(*places.GiverTo("b", 1.0, 5), "a");
  EXPECT_EQ(places.GiverTo("b", 1.0, 6), nullptr) << "it keeps those";
  for (int i = 0; i < 3; ++i) {
    places.Leave("a");
    places.Enter("b");
  }
  EXPECT_EQ(places.GiverTo("b", 1.0, 0), nullptr) << "both have three";
  places.SetWeight("b", 2.0);
  EXPECT_EQ(places.GiverTo("a", 1.0, 0), nullptr);
  ASSERT_NE(places.GiverTo("b", 4.0, 0), nullptr);
  EXPECT_EQ(*places.GiverTo("c", 1.0, 0), "a");
  for (int i = 0; i < 3; ++i) places.Leave("a");
  EXPECT_EQ(*places.GiverTo("c", 1.0, 0), "b");
  EXPECT_EQ(places.num_taken(), 3);
}

}  // namespace
}  // namespace graft
