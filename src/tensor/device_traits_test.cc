#include "tensor/device_traits.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr DeviceTraits kHopperCard = {.compute = 90,
                                      .num_multiprocessors = 132,
                                      .shared_bytes_max = 227 << 10,
                                      .shared_bytes_of_multiprocessor = 228 << 10,
                                      .threads_of_multiprocessor = 2048,
                                      .l2_bytes = 50 << 20};

TEST(DeviceTraitsTest, ACpuHasNone) { EXPECT_EQ(TraitsOf(Device{}), DeviceTraits{}); }

TEST(DeviceTraitsTest, HopperNeedsCodeOfItsOwn) {
  const DeviceTraits hopper = TraitsOfCard(kHopperCard, true);
  EXPECT_TRUE(hopper.has_hopper_code && hopper.overlaps_launches);
  EXPECT_EQ(hopper.num_multiprocessors, 132);
  EXPECT_EQ(hopper.shared_bytes_max, 227 << 10);
  const DeviceTraits without = TraitsOfCard(kHopperCard, false);
  EXPECT_FALSE(without.has_hopper_code || without.overlaps_launches);
}

TEST(DeviceTraitsTest, OtherCardsRunNoHopperCode) {
  for (const int compute : {80, 86, 89, 100, 120}) {
    const DeviceTraits traits = TraitsOfCard({.compute = compute}, true);
    EXPECT_FALSE(traits.has_hopper_code || traits.overlaps_launches) << compute;
    EXPECT_TRUE(traits.is_gpu());
  }
}

TEST(DeviceTraitsTest, CanBeLowered) {
  const DeviceTraits hopper = TraitsOfCard(kHopperCard, true);
  const DeviceTraits ampere = LoweredTo("ampere", hopper);
  EXPECT_EQ(ampere.compute, 80);
  EXPECT_FALSE(ampere.has_hopper_code || ampere.overlaps_launches);
  EXPECT_EQ(ampere.shared_bytes_max, 163 << 10);
  EXPECT_EQ(ampere.shared_bytes_of_multiprocessor, 164 << 10);
  EXPECT_EQ(ampere.num_multiprocessors, 132);
  EXPECT_EQ(ampere.l2_bytes, 50 << 20);
  const DeviceTraits ada = LoweredTo("ada", hopper);
  EXPECT_EQ(ada.compute, 89);
  EXPECT_EQ(ada.shared_bytes_max, 99 << 10);
  EXPECT_EQ(ada.threads_of_multiprocessor, 1536);
  EXPECT_EQ(LoweredTo("ampere", ada).shared_bytes_max, 99 << 10);
}

// This card stands in for theirs: it has no more than it has, but chooses without Hopper's code.
TEST(DeviceTraitsTest, LaterCardsHaveNoHopperCode) {
  const DeviceTraits hopper = TraitsOfCard(kHopperCard, true);
  const DeviceTraits sm100 = LoweredTo("sm100", hopper);
  EXPECT_EQ(sm100.compute, 90);
  EXPECT_EQ(sm100.shared_bytes_max, 227 << 10);
  EXPECT_FALSE(sm100.has_hopper_code);
  EXPECT_EQ(LoweredTo("sm120", hopper).shared_bytes_max, 99 << 10);
}

TEST(DeviceTraitsTest, OtherWordsChangeNothing) {
  const DeviceTraits hopper = TraitsOfCard(kHopperCard, true);
  EXPECT_EQ(LoweredTo("hopper", hopper), hopper);
  EXPECT_EQ(LoweredTo("volta", hopper), hopper);
  EXPECT_EQ(LoweredTo("", hopper), hopper);
  EXPECT_EQ(LoweredTo("ada", DeviceTraits{}), DeviceTraits{});
}

}  // namespace
}  // namespace graft
