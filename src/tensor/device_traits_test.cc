#include "tensor/device_traits.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr int kHopperBytes = 227 << 10;

TEST(DeviceTraitsTest, ACpuHasNone) { EXPECT_EQ(TraitsOf(Device{}), DeviceTraits{}); }

TEST(DeviceTraitsTest, TheCardAndTheCodeForItDecide) {
  const DeviceTraits hopper = TraitsOfCard(9, 132, kHopperBytes, true);
  EXPECT_EQ(hopper.family, GpuFamily::kHopper);
  EXPECT_TRUE(hopper.overlaps_launches);
  EXPECT_EQ(hopper.num_multiprocessors, 132);
  // The same card with kernels for older cards only: none of Hopper's kernels has a body there.
  const DeviceTraits without = TraitsOfCard(9, 132, kHopperBytes, false);
  EXPECT_EQ(without.family, GpuFamily::kAmpere);
  EXPECT_FALSE(without.overlaps_launches);
  EXPECT_EQ(without.shared_bytes_max, kHopperBytes);
  // Neither older nor later cards run code for sm_90a.
  EXPECT_EQ(TraitsOfCard(8, 108, 163 << 10, true).family, GpuFamily::kAmpere);
  EXPECT_EQ(TraitsOfCard(12, 170, 99 << 10, true).family, GpuFamily::kAmpere);
  EXPECT_FALSE(TraitsOfCard(12, 170, 99 << 10, true).overlaps_launches);
}

TEST(DeviceTraitsTest, AWordLowersThem) {
  const DeviceTraits hopper = TraitsOfCard(9, 132, kHopperBytes, true);
  const DeviceTraits ampere = LoweredTo("ampere", hopper);
  EXPECT_EQ(ampere.family, GpuFamily::kAmpere);
  EXPECT_EQ(ampere.shared_bytes_max, 163 << 10);
  EXPECT_FALSE(ampere.overlaps_launches);
  EXPECT_EQ(ampere.num_multiprocessors, 132);
  EXPECT_EQ(LoweredTo("ada", hopper).shared_bytes_max, 99 << 10);
  EXPECT_EQ(LoweredTo("ampere", LoweredTo("ada", hopper)).shared_bytes_max, 99 << 10);
  EXPECT_EQ(LoweredTo("hopper", hopper), hopper);
  EXPECT_EQ(LoweredTo("volta", hopper), hopper);
  EXPECT_EQ(LoweredTo("hopper", ampere), ampere);
  EXPECT_EQ(LoweredTo("ada", DeviceTraits{}), DeviceTraits{});
}

}  // namespace
}  // namespace graft
