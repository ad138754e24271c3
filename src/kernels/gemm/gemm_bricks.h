// The packed layout of weights that are codes on a GPU. Tensor cores hold A, which W is, alike in
// mma.sync and in wgmma: of 8 rows and 16 columns of k lane (g, t) has row g, columns 2t, 2t + 1,
// 2t + 8 and 2t + 9, where g = lane / 4 and t = lane % 4. A word of 32 bits has a lane's codes of
// one such piece (8 bits) or of two (4 bits). A thread reads its words where they lie.
#pragma once

#include <cstdint>

#include "kernels/gemm/code_source.h"

namespace graft {

inline constexpr int64_t kBrickRows = 8;
inline constexpr int64_t kBrickColumns = 128;

// What a row of a brick shares: a scale for each so many columns of it, 32, 64 or 128.
constexpr int64_t BrickScaleNumbers(const WeightFormat& format, int64_t k) {
  if (format.scale_numbers >= k) return kBrickColumns;
  int64_t numbers = kBrickColumns;
  while (format.scale_numbers % numbers != 0) numbers /= 2;
  return numbers;
}

// Whether a brick has one scale a row, in bf16, and no zero points: 2 bytes. Others have fp32.
constexpr bool HasNarrowScales(const WeightFormat& format, int64_t k) {
  return format.scales == DType::kBF16 && !format.has_zero_points &&
         BrickScaleNumbers(format, k) == kBrickColumns;
}

// A GPU sums over k in one or two ranges, each by one chain of products, and adds the second sums
// to y behind the first. Where k is the longer side few blocks share the work, and a chain would
// take longer than memory: two run at once. It depends on the weight's shape alone, as all rows'
// bits do. Bricks of the first range; all where there is one.
constexpr int64_t BricksOfFirstRange(int64_t n, int64_t k) {
  const int64_t bricks = (k + kBrickColumns - 1) / kBrickColumns;
  return k >= n ? (bricks + 1) / 2 : bricks;
}

// A strip is 8 rows of W, a sequence of bricks of 128 columns of k; strips follow each other, and
// behind them is the input order, [k] int32, where the format has one. A brick is
//   [units][32 lanes] words: a unit has 32 columns of codes of 4 bits, or 16 of 8 bits. A word has
//     four pairs of 4 bits, or two of 8, each of columns 2t and 2t + 1 of the next eight. Pair i is
//     at bits 4 i and 16 + 4 i (integers of 4 bits), in byte i (NF4), or at bits 8 i and 16 + 8 i;
//   [8 rows][scales of a row] entries: the scale, bf16 or fp32 (HasNarrowScales), and behind fp32,
//     where the format has zero points, 4 bytes that begin with one in bf16: -(128 + zero) for 4
//     bits and 128 - zero for 8.
// Rows past n have scales of 0. Codes past k are zeros, and meet zeros of x.
struct GemmBricksLayout {
  GemmBricksLayout(const WeightFormat& format, int64_t n, int64_t k)
      : scale_numbers(BrickScaleNumbers(format, k)),
        entry_bytes(HasNarrowScales(format, k) ? 2
                    : format.has_zero_points   ? 8
                                               : 4),
        code_bytes(kBrickRows * kBrickColumns * format.bits / 8),
        brick_bytes(code_bytes + kBrickRows * scales_of_row() * entry_bytes),
        num_strips((n + kBrickRows - 1) / kBrickRows),
        num_bricks((k + kBrickColumns - 1) / kBrickColumns),
        range_bricks(BricksOfFirstRange(n, k)),
        order_bytes(format.has_input_order ? k * int64_t{sizeof(int32_t)} : 0) {}

  int64_t scales_of_row() const { return kBrickColumns / scale_numbers; }
  int64_t strip_bytes() const { return num_bricks * brick_bytes; }
  int num_ranges() const { return range_bricks < num_bricks ? 2 : 1; }
  int64_t order_begin() const { return num_strips * strip_bytes(); }
  int64_t bytes() const { return order_begin() + order_bytes; }

  int64_t scale_numbers, entry_bytes, code_bytes, brick_bytes;
  int64_t num_strips, num_bricks, range_bricks, order_bytes;
};

// Packs strip `strip` of the source to `out`, all of it. CHECKs that bf16 holds the scales where it
// is to.
void PackBricks(const CodeSource& source, const WeightFormat& format, int64_t strip, char* out);

}  // namespace graft
