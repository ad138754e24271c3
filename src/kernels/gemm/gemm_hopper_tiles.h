// The tiles that Hopper's GEMM kernel is compiled for, and the launchers of each kind.
#pragma once

#include <cstddef>
#include <iterator>

#include "kernels/gemm/gemm_cuda.h"

namespace graft::hopper {

constexpr GemmTile Straight(int groups, int columns, int boxes, int blocks) {
  return {groups, columns, boxes, blocks, blocks > 1, false};
}
// Pairs of blocks, which share the operand that weighs more in a stage.
constexpr GemmTile Swapped(int groups, int rows) {
  return {groups, rows, 1, 2, groups * 64 >= rows, true};
}

inline constexpr GemmTile kTiles[] = {
    // A few rows of x: fine steps of columns, so that a shape's tiles come out even.
    Straight(1, 16, 2, 1),
    Straight(1, 32, 2, 1),
    Straight(1, 32, 4, 1),
    Straight(1, 40, 2, 1),
    Straight(1, 40, 4, 1),
    Straight(1, 48, 2, 1),
    Straight(1, 64, 2, 1),
    Straight(1, 80, 2, 1),
    Straight(1, 96, 2, 1),
    Straight(1, 120, 1, 1),
    Straight(1, 128, 1, 1),
    Straight(1, 176, 1, 1),
    Straight(1, 208, 1, 1),
    Straight(1, 224, 1, 1),
    Straight(1, 248, 1, 1),
    Straight(1, 64, 2, 2),
    // A prompt or two: clusters of up to five that bring W once to all of x's tiles of 64 rows, ...
    Straight(1, 128, 1, 3),
    Straight(1, 192, 1, 3),
    Straight(1, 224, 1, 3),
    Straight(1, 160, 1, 4),
    Straight(1, 256, 1, 4),
    Straight(1, 192, 1, 5),
    // ... and swapped tiles, of which few rows are padding.
    Swapped(1, 176),
    Swapped(1, 208),
    Swapped(2, 112),
    Swapped(2, 144),
    Swapped(2, 192),
    Swapped(3, 80),
    Swapped(3, 96),
    Swapped(3, 112),
    Swapped(3, 128),
    Swapped(3, 144),
    Swapped(3, 160),
    Swapped(3, 176),
    // Many rows of x.
    Straight(2, 64, 2, 1),
    Straight(2, 96, 2, 1),
    Straight(2, 128, 1, 1),
    Straight(2, 176, 1, 1),
    Straight(2, 256, 1, 1),
    Straight(2, 192, 1, 2),
    Straight(2, 224, 1, 2),
    Straight(2, 256, 1, 2),
};
inline constexpr size_t kNumTiles = std::size(kTiles);
// Tiles before it are compiled in one file, the others in another.
inline constexpr size_t kTilesSplit = kNumTiles / 2;

// The tiles for fp16, which few bases use: half of bf16's. By the prediction in gemm_hopper.cu the
// lack of these would cost most (workshop/cuda_gemm.md).
inline constexpr GemmTile kF16Tiles[] = {
    Straight(1, 16, 2, 1),  Straight(1, 32, 2, 1),  Straight(1, 40, 2, 1),  Straight(1, 48, 2, 1),
    Straight(1, 64, 2, 1),  Straight(1, 96, 2, 1),  Straight(1, 120, 1, 1), Straight(1, 176, 1, 1),
    Straight(1, 224, 1, 1), Straight(1, 64, 2, 2),  Straight(1, 128, 1, 3), Straight(1, 224, 1, 3),
    Straight(1, 160, 1, 4), Straight(1, 256, 1, 4), Straight(1, 192, 1, 5), Swapped(3, 80),
    Straight(2, 64, 2, 1),  Straight(2, 96, 2, 1),  Straight(2, 256, 1, 1), Straight(2, 192, 1, 2),
    Straight(2, 224, 1, 2),
};
inline constexpr size_t kNumF16Tiles = std::size(kF16Tiles);
static_assert(2 * kNumF16Tiles <= kNumTiles);

// The tiles that read W transposed, for a prompt and for fewer rows. They have whole groups of 64
// columns for each block of a cluster, and no activation.
inline constexpr GemmTile kTransposingTiles[] = {
    Straight(1, 64, 2, 1),
    Straight(2, 128, 1, 1),
    Straight(2, 256, 1, 2),
};

using Launcher = void (*)(const GemmCudaArgs& args, int shared_bytes_max, Stream& stream);

// The launcher of kTiles[tile], from the file on its side of kTilesSplit: gemm_hopper_*.cu.
Launcher LowTileBf16(size_t tile);
Launcher HighTileBf16(size_t tile);
Launcher LowTileBf16Lora(size_t tile);
Launcher HighTileBf16Lora(size_t tile);
// The launcher of kF16Tiles[tile].
Launcher TileF16(size_t tile);

// For an x that the copy engine cannot read.
Launcher CopyingBf16();
Launcher CopyingF16();
Launcher CopyingBf16Lora();

// The launcher of a tile of kTransposingTiles, with LoRA or without.
Launcher TransposingBf16(const GemmTile& tile);
Launcher TransposingBf16Lora(const GemmTile& tile);

}  // namespace graft::hopper
