// The tiles that the GEMM by mma.sync is compiled for (gemm_mma.cuh), and what launches each kind.
// The result does not depend on the tile.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>

#include "kernels/gemm/gemm_cuda.h"
#include "tensor/device_traits.h"

namespace graft::mma {

// What a thread block computes. Warps divide its columns and its rows.
struct Tile {
  int columns;  // of y, which are rows of W
  int rows;     // of x
  int depth;    // columns of k in a stage
  int stages;   // of the ring, of which all but one are on their way
  int column_warps;
  int row_warps;

  constexpr int threads() const { return column_warps * row_warps * 32; }
  constexpr int ring_bytes() const { return stages * (columns + rows) * depth * 2; }
  std::string ToString() const {
    return std::to_string(rows) + " x " + std::to_string(columns) + " by mma.sync, " +
           std::to_string(stages) + " stages of " + std::to_string(depth);
  }
  bool operator==(const Tile&) const = default;
};

// Every ring fits the 99 KiB that a block has on the least of these cards (sm_86, 89, 120), and the
// small ones fit twice.
inline constexpr Tile kTiles[] = {
    // A few rows: W's bytes are all that takes time. A block has 20 to 36 KiB of them on their way.
    {.columns = 32, .rows = 8, .depth = 64, .stages = 9, .column_warps = 2, .row_warps = 1},
    {.columns = 32, .rows = 16, .depth = 64, .stages = 8, .column_warps = 2, .row_warps = 1},
    {.columns = 32, .rows = 32, .depth = 64, .stages = 8, .column_warps = 2, .row_warps = 1},
    {.columns = 32, .rows = 64, .depth = 64, .stages = 7, .column_warps = 2, .row_warps = 2},
    // Prompts' rows, and what does less.
    {.columns = 64, .rows = 64, .depth = 64, .stages = 4, .column_warps = 2, .row_warps = 2},
    {.columns = 128, .rows = 128, .depth = 32, .stages = 3, .column_warps = 2, .row_warps = 2},
    {.columns = 128, .rows = 256, .depth = 32, .stages = 4, .column_warps = 2, .row_warps = 4},
};
inline constexpr size_t kNumTiles = std::size(kTiles);
// From here on there are kernels with LoRA inside, and such that read W transposed.
inline constexpr size_t kFirstWide = 4;

// The fastest tile for a product, by what the card has. is_wide: it must be one from kFirstWide on.
size_t ChooseTile(int64_t m, int64_t n, int64_t k, bool is_wide, const DeviceTraits& traits);

// What W is to a tile.
struct TileWeight {
  double number_bytes = 2.0;  // of a number in memory, and in a stage
  // It takes a lane to make a number of them, for each warp that multiplies it.
  double number_instructions = 0.0;
  int block_bytes = 0;  // of shared memory
};
// An estimate of which only the order matters, and whether a multiprocessor has room for a block.
double PredictCycles(const Tile& tile, const TileWeight& w, int64_t m, int64_t n, int64_t k,
                     const DeviceTraits& traits);
bool FitsOnCard(const Tile& tile, const TileWeight& w, const DeviceTraits& traits);

using Launcher = void (*)(const GemmCudaArgs& args, Stream& stream);

// The launcher of kTiles[tile].
Launcher Bf16(size_t tile);
Launcher F16(size_t tile);
// From kFirstWide on.
Launcher Bf16Lora(size_t tile);
Launcher TransposingBf16(size_t tile);
Launcher TransposingBf16Lora(size_t tile);
// Where cp.async cannot read x, because its rows do not begin and end on borders of 16 bytes.
Launcher CopyingBf16();
Launcher CopyingF16();
Launcher CopyingBf16Lora();

}  // namespace graft::mma
