// The tiles that Hopper's products of codes are compiled for (gemm_hopper_codes.cuh), and what
// launches each kind. The result does not depend on the tile.
#pragma once

#include <cstddef>
#include <iterator>

#include "kernels/gemm/gemm_codes_tiles.h"
#include "kernels/gemm/gemm_cuda.h"

namespace graft::codes {

struct HopperTile {
  int groups;      // of 64 rows of W
  int rows;        // of x
  int ring_bytes;  // what a block's ring of stages should take, so that several blocks fit
};

// Few rows of x take a block for 64 rows of W, of which a multiprocessor has several, or for more,
// so that x is read less often.
inline constexpr HopperTile kHopperTiles[] = {
    {1, 8, 50 << 10},    {2, 8, 64 << 10},    {1, 16, 56 << 10}, {2, 16, 72 << 10},
    {1, 32, 72 << 10},   {2, 32, 100 << 10},  {1, 64, 84 << 10}, {4, 64, 170 << 10},
    {1, 128, 110 << 10}, {2, 128, 170 << 10},
};
inline constexpr size_t kNumHopperTiles = std::size(kHopperTiles);

// Whether a weight's products can take the tile: of two ranges of k each is a block's, and such
// blocks have one group.
inline bool HasHopperTile(const GemmWeight& weight, size_t tile) {
  return kHopperTiles[tile].groups == 1 ||
         GemmBricksLayout(weight.format(), weight.n(), weight.k()).num_ranges() == 1;
}

// The launchers of one kind. Those of two ranges are null where HasHopperTile is not.
struct HopperLaunchers {
  Launcher plain[kNumHopperTiles];
  Launcher of_two_ranges[kNumHopperTiles];
};
const HopperLaunchers& HopperInt4Launchers();
const HopperLaunchers& HopperInt4WideLaunchers();
const HopperLaunchers& HopperInt8Launchers();
const HopperLaunchers& HopperInt8WideLaunchers();
const HopperLaunchers& HopperNormal4Launchers();

}  // namespace graft::codes
