// The tiles that the products of codes by mma.sync are compiled for (gemm_codes_operands.cuh), and
// what launches each kind. The result does not depend on the tile.
#pragma once

#include <cstddef>
#include <iterator>

#include "kernels/gemm/gemm_bricks.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_mma_tiles.h"

namespace graft::codes {

// What a kernel makes numbers of: the codes, and whether their scales are fp32 or, as
// HasNarrowScales says, bf16.
enum class Kind : uint8_t { kInt4, kInt4Wide, kInt8, kInt8Wide, kNormal4 };
inline constexpr size_t kNumKinds = 5;

constexpr bool IsWide(Kind kind) { return kind != Kind::kInt4 && kind != Kind::kInt8; }
constexpr int BitsOf(Kind kind) { return kind == Kind::kInt8 || kind == Kind::kInt8Wide ? 8 : 4; }

inline Kind KindOf(const WeightFormat& format, int64_t k) {
  if (format.codes == WeightCodes::kNormal4) return Kind::kNormal4;
  const bool is_wide = !HasNarrowScales(format, k);
  if (format.bits == 4) return is_wide ? Kind::kInt4Wide : Kind::kInt4;
  return is_wide ? Kind::kInt8Wide : Kind::kInt8;
}

// What a tile of mma::Tile's shape has besides.
struct Tile {
  int columns;
  int rows;
  int column_warps;
  int row_warps;
  // Stages of the ring, of 128 columns of k each, by kinds. With bricks of the most scales, and for
  // NF4 the table beside it, a ring fits the 99 KiB that a block has on the least of cards.
  int stages_of_4;
  int stages_of_8;
  int stages_of_normal4;
  int table_copies;  // of NF4's table: 16 serve a half-warp at a time
};

inline constexpr Tile kTiles[] = {
    {32, 8, 2, 1, 11, 7, 12, 16},
    {64, 16, 4, 1, 8, 6, 7, 16},
    {64, 32, 4, 1, 6, 5, 5, 16},
    // Those with LoRA inside, too.
    {64, 64, 2, 2, 4, 3, 3, 16},
    {64, 128, 2, 2, 2, 2, 2, 8},
};
inline constexpr size_t kNumTiles = std::size(kTiles);
inline constexpr size_t kFirstWide = 3;

// groups: of warps, each with stages of its own, of which there are so many fewer.
constexpr mma::Tile MmaTileOf(Kind kind, size_t tile, int groups = 1) {
  const Tile& of = kTiles[tile];
  const int all_stages = kind == Kind::kNormal4 ? of.stages_of_normal4
                         : BitsOf(kind) == 8    ? of.stages_of_8
                                                : of.stages_of_4;
  return {.columns = of.columns,
          .rows = of.rows,
          .depth = 128,
          .stages = all_stages / groups,
          .column_warps = of.column_warps,
          .row_warps = of.row_warps};
}

// The fastest tile for a product, by what the card has. is_wide: it must be one from kFirstWide on.
size_t ChooseTile(const WeightFormat& format, int64_t m, int64_t n, int64_t k, bool is_wide,
                  const DeviceTraits& traits);

using Launcher = void (*)(const GemmCudaArgs& args, Stream& stream);

// The launchers of one kind.
struct KindLaunchers {
  Launcher plain[kNumTiles];
  Launcher of_two_ranges[kFirstWide];     // with two groups, of the tiles before kFirstWide
  Launcher lora[kNumTiles - kFirstWide];  // of the tiles from kFirstWide on
  // With LoRA or without, where cp.async cannot read x: its rows do not begin and end on borders of
  // 16 bytes.
  Launcher copying;
};
const KindLaunchers& Int4Launchers();
const KindLaunchers& Int4WideLaunchers();
const KindLaunchers& Int8Launchers();
const KindLaunchers& Int8WideLaunchers();
const KindLaunchers& Normal4Launchers();

}  // namespace graft::codes
