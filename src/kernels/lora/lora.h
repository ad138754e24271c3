// LoRA for a batch of many adapters (Punica's SGMV, section 4; S-LoRA's MBGMV/MBGMM, section 4.1,
// ranks mixed without padding): y += scale * (x A^T) B^T per segment, in two launches, shrink then
// expand. One launch serves up to three modules that share x (q, k, v; gate, up), as slices. Base
// rows are in no segment and cost nothing. Each row's result depends on its own x and adapter
// alone, bit for bit.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

inline constexpr int32_t kLoraRankMax = 256;
inline constexpr int32_t kLoraSlicesMax = 3;
// Parts of k that a GPU sums each on its own, then in order.
inline constexpr int32_t kLoraSplits = 8;

// One adapter's matrices for one module. Rows are gathered through pointers, so that pages of a
// pool need not be contiguous: a_rows[j] is row j of A, b_rows[j] is column j of B (row j of B^T).
struct LoraMatrix {
  const void* const* a_rows = nullptr;  // [rank] pointers to [k] elements
  const void* const* b_rows = nullptr;  // [rank] pointers to [n] elements, all finite
  int32_t rank = 0;                     // 0: the adapter leaves this module alone
  float scale = 0.0f;                   // alpha / rank, or alpha / sqrt(rank)
};

// Consecutive rows of one adapter. Segments are disjoint and ascend; they may be empty, may leave
// rows out (base rows), and two may name one adapter.
struct LoraSegment {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int32_t adapter_slot = 0;
};

// Rows of one adapter, one after the other, that a GPU's kernels take together.
inline constexpr int32_t kLoraTileRows = 8;

// Where the LoRA of a product's rows is computed. A plan chooses (layers/launch_plan.h), and what
// cannot do it CHECKs.
enum class LoraPlace : uint8_t {
  kNone,      // there is none
  kInside,    // in the product's kernel, after LoraShrink: where GemmTakesLora
  kBeside,    // all of Lora, while the product runs: where GemmRunsLoraBeside, by LoraArgs::beside
  kAfter,     // by LoraExpand behind the product: anywhere
  kAssisted,  // by the host's processor (LoraBridge), while the adapter is on its way
};

// What it takes to compute LoRA of up to kLoraBesideRowsMax rows beside the product that it is
// added to, see LoraPlace::kBeside.
inline constexpr int32_t kLoraBesideRowsMax = 64;
inline constexpr int32_t kLoraBesideWords = 256;
struct LoraBeside {
  float* delta = nullptr;          // scratch, [num_rows, y_stride]; null: not beside
  uint32_t* words = nullptr;       // [kLoraBesideWords], this product's alone, 0 at first
  const uint32_t* step = nullptr;  // another number than 0 at each launch; constant during one
};

// On a GPU, `segments`, `matrices` and the tables of rows are device memory too, num_segments and
// h_stride are upper bounds (pad with empty segments), and segments of up to 64 rows go fastest.
// They and A and B may be read while earlier kernels of the stream still run: write them with
// copies, or in a graph launched before.
struct LoraArgs {
  DType dtype = DType::kF32;              // of A, B and (see x_is_fp32) x; fp16 on a GPU alone
  const LoraSegment* segments = nullptr;  // [num_segments]
  int32_t num_segments = 0;
  // Slice s of adapter slot a is matrices[a * matrices_stride + s].
  const LoraMatrix* matrices = nullptr;
  int64_t matrices_stride = 0;
  int32_t num_slices = 1;   // [1, kLoraSlicesMax]
  const void* x = nullptr;  // [num_rows, k], rows x_stride elements apart
  int64_t x_stride = 0;
  int64_t k = 0;
  // Scratch between the two launches: [num_slices, num_rows, h_stride]; on a GPU kLoraSplits times
  // that, the parts outermost, and more: LoraScratchFloats.
  float* h = nullptr;
  int64_t h_stride = 0;  // >= the largest rank in use
  int32_t num_rows = 0;
  // An upper bound of the segments' rows together, if the caller knows a better one than num_rows;
  // else 0. How a GPU divides the work depends on it, no result does.
  int32_t segment_rows = 0;
  int32_t segment_rows_each = 0;  // the same of every single segment
  float* y = nullptr;             // [num_rows, ...], rows y_stride elements apart
  int64_t y_stride = 0;
  int64_t slice_begin[kLoraSlicesMax] = {};  // first column of slice s in y
  int64_t slice_n[kLoraSlicesMax] = {};      // columns of slice s
  float scale = 1.0f;                        // of all that is added to y, beside each matrix's own
  // [num_rows, n / 2] of dtype, or null: LoraExpand also computes SwiGLU's GatedActivation of y to
  // it, of rows with LoRA and without. Two slices are y's halves, y's rows lie without gaps, and y
  // is scratch then. GPU only.
  void* activated = nullptr;
  // x is fp32 whatever dtype is, and enters the products as it is. CPU only.
  bool x_is_fp32 = false;
  LoraBeside beside;
  // The last launch before LoraShrink is a Gemm of the same x, for which GemmHoldsNext holds. It
  // lets LoraShrink begin only when all kernels before the Gemm have ended. So x is there, and
  // LoraShrink need not wait for it, too.
  bool follows_product = false;
  // The next launch after LoraShrink is a Gemm of the same x that computes the rest of this LoRA
  // (LoraPlace::kInside). LoraShrink lets that Gemm begin only when x is there, so the Gemm waits
  // for h alone. The host CHECKs this one and the one above (LaunchLedger).
  bool precedes_product = false;
};

// Floats of `h` for launches of up to num_slices * num_rows rows and ranks of up to h_stride. On a
// GPU Gemm (LoraPlace::kInside) puts h behind the parts as its kernel takes it (lora_pack.cuh).
inline int64_t LoraScratchFloats(const Device& device, int64_t rows, int64_t h_stride) {
  if (device.is_cpu()) return rows * h_stride;
  return (kLoraSplits * h_stride + (h_stride + 15) / 16 * 16) * rows + 4;
}

// h = x A^T.
void LoraShrink(const LoraArgs& args, Stream& stream);
// y += scale * h B^T; and more, see LoraArgs::activated.
void LoraExpand(const LoraArgs& args, Stream& stream);
// Both.
void Lora(const LoraArgs& args, Stream& stream);

}  // namespace graft
