#include "tensor/device_traits.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr DeviceTraits kHopperCard = {.compute = 90,
                                      .num_multiprocessors = 132,
                                      .shared_bytes_max = 227 << 10,
                                      .shared_bytes_of_multiprocessor = 228 << 10,
                                      .threads_of_multiprocessor = 2048,
                                      .l2_bytes = 50 << 20,
                                      .blocks_of_multiprocessor = 32};

// What tools/dist.sh packs, bench/gpu.sh builds, and what a lesser card's code is tested with.
constexpr std::string_view kDist = "80-real,90a-real,100,120-real";
constexpr std::string_view kHopperOnly = "90a-real";
constexpr std::string_view kAmpereText = "80-virtual";
constexpr std::string_view kOverlapText = "90-virtual";

TEST(DeviceTraitsTest, ACpuHasNone) { EXPECT_EQ(TraitsOf(Device{}), DeviceTraits{}); }

TEST(DeviceTraitsTest, HopperNeedsCodeOfItsOwn) {
  for (const std::string_view architectures : {kDist, kHopperOnly}) {
    const DeviceTraits hopper = TraitsOfCard(kHopperCard, architectures);
    EXPECT_TRUE(hopper.has_hopper_code && hopper.overlaps_launches) << architectures;
    EXPECT_EQ(hopper.num_multiprocessors, 132);
    EXPECT_EQ(hopper.shared_bytes_max, 227 << 10);
  }
  const DeviceTraits without = TraitsOfCard(kHopperCard, kAmpereText);
  EXPECT_FALSE(without.has_hopper_code || without.overlaps_launches);
}

TEST(DeviceTraitsTest, OlderCardsDoNotOverlapAndLaterOnesDo) {
  for (const int compute : {80, 86, 89}) {
    const DeviceTraits traits = TraitsOfCard({.compute = compute}, kDist);
    EXPECT_FALSE(traits.has_hopper_code || traits.overlaps_launches) << compute;
    EXPECT_TRUE(traits.is_gpu());
  }
  for (const int compute : {100, 103, 120, 121}) {
    const DeviceTraits traits = TraitsOfCard({.compute = compute}, kDist);
    EXPECT_FALSE(traits.has_hopper_code) << compute;
    EXPECT_TRUE(traits.overlaps_launches) << compute;
  }
}

// The code for older cards has no griddepcontrol: a kernel would not wait for the one before it.
TEST(DeviceTraitsTest, CodeForOlderCardsDoesNotOverlapOnLaterOnes) {
  EXPECT_FALSE(TraitsOfCard({.compute = 100}, kAmpereText).overlaps_launches);
  EXPECT_FALSE(TraitsOfCard({.compute = 120}, "80").overlaps_launches);
  EXPECT_TRUE(TraitsOfCard(kHopperCard, kOverlapText).overlaps_launches);
  EXPECT_FALSE(TraitsOfCard(kHopperCard, kOverlapText).has_hopper_code);
}

TEST(DeviceTraitsTest, CanBeLowered) {
  const DeviceTraits hopper = TraitsOfCard(kHopperCard, kHopperOnly);
  const DeviceTraits ampere = LoweredTo("ampere", hopper);
  EXPECT_EQ(ampere.compute, 80);
  EXPECT_EQ(ampere.own_compute(), 90);
  EXPECT_FALSE(ampere.has_hopper_code || ampere.overlaps_launches);
  EXPECT_EQ(ampere.shared_bytes_max, 163 << 10);
  EXPECT_EQ(ampere.shared_bytes_of_multiprocessor, 164 << 10);
  EXPECT_EQ(ampere.threads_of_multiprocessor, 2048);
  EXPECT_EQ(ampere.num_multiprocessors, 132);
  EXPECT_EQ(ampere.l2_bytes, 40 << 20);
  const DeviceTraits ada = LoweredTo("ada", hopper);
  EXPECT_EQ(ada.compute, 89);
  EXPECT_EQ(ada.shared_bytes_max, 99 << 10);
  EXPECT_EQ(ada.threads_of_multiprocessor, 1536);
  EXPECT_EQ(ada.blocks_of_multiprocessor, 24);
  EXPECT_EQ(LoweredTo("ampere", ada).shared_bytes_max, 99 << 10);
  EXPECT_EQ(LoweredTo("sm86", hopper).l2_bytes, 6 << 20);
}

// Blackwell has none of Hopper's own code, and launches that overlap.
TEST(DeviceTraitsTest, BlackwellStandsInWithOverlap) {
  const DeviceTraits hopper = TraitsOfCard(kHopperCard, kOverlapText);
  const DeviceTraits sm100 = LoweredTo("sm100", hopper);
  EXPECT_EQ(sm100.compute, 100);
  EXPECT_EQ(sm100.own_compute(), 90);
  EXPECT_EQ(sm100.shared_bytes_max, 227 << 10);
  EXPECT_EQ(sm100.l2_bytes, 50 << 20);
  EXPECT_FALSE(sm100.has_hopper_code);
  EXPECT_TRUE(sm100.overlaps_launches);
  const DeviceTraits sm120 = LoweredTo("sm120", hopper);
  EXPECT_EQ(sm120.shared_bytes_max, 99 << 10);
  EXPECT_EQ(sm120.threads_of_multiprocessor, 1536);
  EXPECT_TRUE(sm120.overlaps_launches);
  EXPECT_FALSE(LoweredTo("sm120", TraitsOfCard(kHopperCard, kAmpereText)).overlaps_launches);
}

TEST(DeviceTraitsTest, OtherWordsAreRefusedByName) {
  EXPECT_TRUE(CheckGpuFamily("").ok());
  EXPECT_TRUE(CheckGpuFamily("sm86").ok());
  const Status volta = CheckGpuFamily("volta");
  EXPECT_EQ(volta.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(volta.message(),
            "GRAFT_GPU_FAMILY=volta: must be one of ampere, sm86, ada, sm100, sm120, or not set");
  const DeviceTraits hopper = TraitsOfCard(kHopperCard, kHopperOnly);
  EXPECT_EQ(LoweredTo("", hopper), hopper);
  EXPECT_EQ(LoweredTo("ada", DeviceTraits{}), DeviceTraits{});
}

TEST(DeviceTraitsTest, TheLineAtAStartNamesTheFamilyAndWhatIsNotTuned) {
  const DeviceTraits hopper = TraitsOfCard(kHopperCard, kHopperOnly);
  EXPECT_EQ(KernelsText(hopper), "Hopper's, tuned on an H100 and an H200 (compute capability 9.0)");
  const std::string ada = KernelsText(TraitsOfCard({.compute = 89}, kDist));
  EXPECT_TRUE(ada.starts_with("the general ones (compute capability 8.9): right here, but")) << ada;
  const std::string forced = KernelsText(LoweredTo("sm120", hopper));
  EXPECT_TRUE(forced.starts_with("the general ones (compute capability 9.0 standing in for sm120)"))
      << forced;
}

}  // namespace
}  // namespace graft
