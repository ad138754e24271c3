#include "kernels/common/block_residency.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr int kHopperShared = 228 << 10;

DeviceTraits Hopper() {
  return {.compute = 90,
          .num_multiprocessors = 132,
          .shared_bytes_max = 227 << 10,
          .shared_bytes_of_multiprocessor = kHopperShared,
          .threads_of_multiprocessor = 2048,
          .l2_bytes = 50 << 20,
          .blocks_of_multiprocessor = 32};
}

TEST(ResidencyTest, TheScarcestThingDecides) {
  const DeviceTraits hopper = Hopper();
  EXPECT_EQ(BlocksThatFit(hopper, {.threads = 128}), 16) << "threads";
  EXPECT_EQ(BlocksThatFit(hopper, {.threads = 32}), 32) << "places";
  EXPECT_EQ(BlocksThatFit(hopper, {.threads = 128, .dynamic_bytes = 56 << 10}), 4) << "memory";
  EXPECT_EQ(
      BlocksThatFit(hopper, {.threads = 128, .static_bytes = 1 << 10, .dynamic_bytes = 56 << 10}),
      3)
      << "and what a kernel declares";
  EXPECT_EQ(BlocksThatFit(hopper, {.threads = 65}), 21) << "whole warps";
}

TEST(ResidencyTest, LesserCardsHoldFewerBlocks) {
  const DeviceTraits ampere = LoweredTo("ampere", Hopper());
  const DeviceTraits ada = LoweredTo("ada", Hopper());
  const BlockNeeds block = {.threads = 256, .dynamic_bytes = 40 << 10};
  EXPECT_EQ(BlocksThatFit(Hopper(), block), 5);
  EXPECT_EQ(BlocksThatFit(ampere, block), 4);
  EXPECT_EQ(BlocksThatFit(ada, block), 2);
  EXPECT_EQ(BlocksThatFit(ada, {.threads = 256}), 6) << "1,536 threads";
  EXPECT_EQ(BlocksThatFit(LoweredTo("sm86", Hopper()), {.threads = 32}), 16);
}

// A launch that asks for so much is held as often as said, and would not be with 128 bytes less.
TEST(ResidencyTest, PaddingAllowsSoManyBlocksAndNoMore) {
  for (int num_blocks = 1; num_blocks <= 32; ++num_blocks) {
    for (const int static_bytes : {0, 48, 2000}) {
      const BlockNeeds block = {.threads = 32, .static_bytes = static_bytes};
      BlockNeeds padded = block;
      padded.dynamic_bytes = PaddedBytes(block, num_blocks, kHopperShared);
      EXPECT_EQ(BlocksThatFit(Hopper(), padded), num_blocks) << static_bytes;
      EXPECT_LE(padded.static_bytes + padded.dynamic_bytes, 227 << 10);
      if (num_blocks == 32) continue;  // there are no more places
      padded.dynamic_bytes -= 128;
      EXPECT_EQ(BlocksThatFit(Hopper(), padded), num_blocks + 1) << static_bytes;
    }
  }
}

TEST(ResidencyTest, PaddingTakesNothingFromAKernel) {
  const BlockNeeds block = {.threads = 256, .dynamic_bytes = 99 << 10};
  EXPECT_EQ(PaddedBytes(block, 2, kHopperShared), 99 << 10) << "it already allows no third one";
  EXPECT_GT(PaddedBytes(block, 1, kHopperShared), 113 << 10);
}

}  // namespace
}  // namespace graft
