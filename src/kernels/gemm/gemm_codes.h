// The packed layout of weights that are codes, and how the CPU multiplies them: sums of integers.
//
// A row of x becomes, in blocks of GemmCodeBlock numbers, two digits of 8 bits with a scale: x = s
// (high + low / 256), which is off by at most 1 / 65,000 of the block's largest magnitude. Products
// of codes and digits are summed exactly, as integers, and only a block's sums are multiplied by
// its scales. So what rounds is far less than in products of bf16.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/code_source.h"
#include "kernels/gemm/gemm_layout.h"

namespace graft {

// One scale multiplies sums over so many numbers of k, at most 128, so that sums of products of
// bytes stay exact in fp32.
inline constexpr int64_t kGemmCodeBlockMax = 128;
constexpr int64_t GemmCodeBlock(const WeightFormat& format, int64_t k) {
  if (format.scale_numbers >= k) return kGemmCodeBlockMax;
  int64_t block = kGemmCodeBlockMax;
  while (format.scale_numbers % block != 0) block -= 32;
  return block;
}

// A panel is a sequence of blocks: [kGemmPanel] fp32 scales, [kGemmPanel] fp32 zero points where
// the format has some, then steps as in gemm_layout.h: 128 bytes hold, for each of the panel's
// columns, 4 bytes. Codes of 8 bits are of 4 neighbouring k. Of codes of 4 bits a byte's low half
// is of k + i and its high half of k + 4 + i. Columns past n have scales of 0, and what lies past k
// meets zeros of x. Behind the panels is the input order, [k] int32, where the format has one.
struct GemmCodesLayout {
  GemmCodesLayout(const WeightFormat& format, int64_t n, int64_t k)
      : block_k(GemmCodeBlock(format, k)),
        step_k(32 / format.bits),
        num_blocks((k + block_k - 1) / block_k),
        num_panels((n + kGemmPanel - 1) / kGemmPanel),
        scale_bytes(kGemmPanel * int64_t{sizeof(float)} * (format.has_zero_points ? 2 : 1)),
        block_bytes(scale_bytes + block_k / step_k * kGemmStepBytes),
        order_bytes(format.has_input_order ? k * int64_t{sizeof(int32_t)} : 0) {}

  int64_t panel_bytes() const { return num_blocks * block_bytes; }
  int64_t order_begin() const { return num_panels * panel_bytes(); }
  int64_t bytes() const { return order_begin() + order_bytes; }

  int64_t block_k, step_k, num_blocks, num_panels;
  int64_t scale_bytes, block_bytes, order_bytes;
};

// A block of a row of x: [kGemmCodeBlockMax] high digits, as many low ones, its scale over 256, and
// the sum of 256 high + low.
inline constexpr int64_t kGemmDigitsBytes = 2 * kGemmCodeBlockMax + 2 * int64_t{sizeof(float)};

// Packs panel `panel` of the source to `out`. Rows past n are zeros.
void PackCodesPanel(const CodeSource& source, const WeightFormat& format, int64_t panel, char* out);

}  // namespace graft
