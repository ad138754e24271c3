// LoRA's expand inside Hopper's GEMM, for prompts: the sums of y end with scale * h B^T, so that y
// is written once. LoRA comes last, so that its operands arrive from memory while x and W are
// multiplied. An "item" is 16 ranks of one segment, and costs as much as two more steps of k. It
// multiplies scale * h of the tile's rows, as two bf16 numbers (lora_pack.cuh) and zero in the rows
// of other segments, by the tile's columns of B. Two warps beside the producer list the segments of
// a tile's rows and bring its items through a ring of their own, while x and W are multiplied.
//
// What is added to an element, and in which order, depends on its own row's adapter alone: slices
// ascending, then tiles of 16 ranks ascending. Items of other segments add only zeros, because all
// elements of B are finite (adapters/lora_weights.h).
#pragma once

#include "kernels/common/cuda_copy.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/gemm/gemm_lora_items.cuh"
#include "kernels/lora/lora.h"
#include "kernels/lora/lora_pack.cuh"

#if defined(GRAFT_HOPPER)
#include "kernels/common/cuda_wgmma.cuh"
#endif

namespace graft {

inline constexpr int kLoraStagesMaxLog2 = 4;
inline constexpr int kLoraLoaders = 2;  // warps
// A full and an empty barrier for each stage, and for the table.
inline constexpr int kLoraBarrierBytes = (2 << kLoraStagesMaxLog2) * 8 + 16;

// kRowsOf x kColumnsOf: the GEMM's tile. kWarpsOf: the number of warps that multiply.
template <int kRowsOf, int kColumnsOf, int kWarpsOf, bool kSwappedOf>
struct GemmLoraShape : GemmLoraColumns<kColumnsOf, kSwappedOf> {
  static constexpr int kRows = kRowsOf;
  static constexpr int kColumns = kColumnsOf;
  static constexpr int kWarps = kWarpsOf;
  static constexpr bool kSwapped = kSwappedOf;
  static constexpr int kPieces = kColumns / 8;  // pieces of 16 bytes in a tile's row of B
  // The layout of B in a stage: each rank has a row of 64 columns; 16 such rows come before the 16
  // rows of the next 64 columns. They are swizzled as the copy engine would do it. For wgmma this
  // is a transposed operand: the second one or, in a swapped tile, the first.
  static constexpr int kGroupBytes = lora::kPackRanks * 128;
  static constexpr int kBBytes = (kColumns + 63) / 64 * kGroupBytes;
  // h of a tile lies in four columns of 16 bytes: first numbers of ranks 0 to 7 and 8 to 15, then
  // second numbers of the same ranks.
  static constexpr int kHColumnBytes = kRows * 16;
  static constexpr int kStageBytes = kBBytes + 4 * kHColumnBytes;
  static constexpr int kTableBytes = (sizeof(GemmLoraTable<kRows>) + 15) / 16 * 16;
  static_assert(kColumns % 8 == 0 && kRows <= 256 && kStageBytes % 1024 == 0);

  static __device__ uint32_t PlaceOfB(int rank, int piece) {
    return piece / 8 * kGroupBytes + rank * 128 + (piece % 8 ^ rank % 8) * 16;
  }
};

#if defined(GRAFT_HOPPER)

template <typename Shape>
struct GemmLoraRing {
  uint32_t barriers;
  uint32_t stages;
  GemmLoraTable<Shape::kRows>* table;
  int num_stages_log2;

  __device__ uint32_t Full(int stage) const { return barriers + stage * 8; }
  __device__ uint32_t Empty(int stage) const {
    return barriers + (stage << 3) + (8 << kLoraStagesMaxLog2);
  }
  __device__ uint32_t TableFull() const { return barriers + (16 << kLoraStagesMaxLog2); }
  __device__ uint32_t TableEmpty() const { return TableFull() + 8; }
  __device__ int StageOf(int item) const { return item & ((1 << num_stages_log2) - 1); }
  __device__ int LapOf(int item) const { return item >> num_stages_log2; }
  __device__ uint32_t B(int stage) const { return stages + stage * Shape::kStageBytes; }
  __device__ uint32_t H(int stage) const { return B(stage) + Shape::kBBytes; }

  // Called by all threads, before the block's first barrier.
  __device__ void Init() const {
    const int i = static_cast<int>(threadIdx.x);
    if (i < 1 << num_stages_log2) {
      BarrierInit(Full(i), kLoraLoaders * 32);
      BarrierInit(Empty(i), Shape::kWarps);
      BarrierInitDone();
    } else if (i == 32) {
      BarrierInit(TableFull(), 32);
      BarrierInit(TableEmpty(), (Shape::kWarps + kLoraLoaders - 1) * 32);
      BarrierInitDone();
    }
  }
};

// What one of the loading warps does.
template <typename Shape>
class GemmLoraLoader {
 public:
  __device__ GemmLoraLoader(const GemmLoraArgs& args, const GemmLoraRing<Shape>& ring, int warp)
      : args_(args),
        lora_(args.lora),
        ring_(ring),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // Loads all items of the tile that begins at row `row`.
  __device__ void LoadTile(int row, GemmTileColumns columns) {
    if (warp_ == 0) {
      if (tile_ > 0) BarrierWait(ring_.TableEmpty(), (tile_ - 1) & 1);
      ListLoraSegments(lora_, row, *ring_.table);
      if (lane_ < lora_.num_slices) {
        ring_.table->has_slice[lane_] = Shape::HasColumns(lora_, lane_, columns) ? 1 : 0;
      }
      __syncwarp();
      BarrierArrive(ring_.TableFull());
    } else {
      BarrierWait(ring_.TableFull(), tile_ & 1);
    }
    for (Cursor at(*ring_.table, lora_.num_slices); !at.Done();) {
      const uint16_t* const rows = LookUp(at);
#pragma unroll 1
      for (int i = 0; i < kAhead && !at.Done(); ++i, at.Next()) {
        const auto* const b = reinterpret_cast<const uint16_t*>(
            __shfl_sync(~0u, reinterpret_cast<unsigned long long>(rows), i * kRanks + lane_ / 4));
        LoadItem(row, columns, at, b);
      }
      TellLoaded();
    }
    if (warp_ != 0) BarrierArrive(ring_.TableEmpty());
    ++tile_;
  }

 private:
  using Cursor = GemmLoraCursor<Shape::kRows>;
  static constexpr int kRanks = lora::kPackRanks / kLoraLoaders;  // this warp's ranks of an item
  static constexpr int kAhead = 32 / kRanks;  // items that are looked up at a time

  // Finds the rows of B for the next kAhead items. This lane's row is for rank lane % kRanks of
  // this warp's ranks, and for the item lane / kRanks further on. Null where the matrix has no such
  // rank.
  __device__ const uint16_t* LookUp(Cursor at) const {
    for (int i = lane_ / kRanks; i > 0 && !at.Done(); --i) at.Next();
    if (at.Done()) return nullptr;
    const LoraMatrix& matrix = LoraMatrixOf(lora_, ring_.table->slot[at.segment], at.slice);
    const int rank = at.rank_tile * lora::kPackRanks + warp_ * kRanks + lane_ % kRanks;
    return rank < matrix.rank ? static_cast<const uint16_t*>(matrix.b_rows[rank]) : nullptr;
  }

  // b: the row of B for rank lane / 4 of this warp's ranks.
  __device__ __forceinline__ void LoadItem(int row, GemmTileColumns columns, const Cursor& at,
                                           const uint16_t* b) {
    const int stage = ring_.StageOf(item_);
    const int lap = ring_.LapOf(item_);
    if (lap > 0 && !BarrierIsOver(ring_.Empty(stage), (lap - 1) & 1)) {
      TellLoaded();  // the warp that must free the stage may be waiting for these
      BarrierWait(ring_.Empty(stage), (lap - 1) & 1);
    }
    LoadB(stage, at.slice, b, columns);
    if (item_++ == 0) WaitForPrevious();  // the kernel before this one writes h
    LoadH(stage, row, at);
  }

  // These copies are ordinary ones, and a fence must make them visible to matrix instructions. The
  // loading warps do that: where the multiplying warps did, their products waited for it, and
  // LoRA's share of a layer of 2,048 rows, without the shrink, took 86 us instead of 33
  // (workshop/cuda_gemm.md). The fence's time in the loading warps was not measured.
  __device__ void TellLoaded() {
    if (told_ == item_) return;
    WaitForAllCopies();
    FenceForAsync();
    for (; told_ < item_; ++told_) BarrierArrive(ring_.Full(ring_.StageOf(told_)));
  }

  // Loads this warp's half of an item's ranks, with four lanes for each. Unrolled like LoadH,
  // because the instructions of one warp, one after the other, would take longer than the bytes.
  __device__ __forceinline__ void LoadB(int stage, int slice, const uint16_t* b,
                                        GemmTileColumns columns) const {
    const int rank = warp_ * kRanks + lane_ / 4;
    const int n = static_cast<int>(lora_.slice_n[slice]);
    const bool on_border = (reinterpret_cast<uintptr_t>(b) & 15) == 0;
    if (__all_sync(~0u, on_border) == 0 || !args_.vectors) {
#pragma unroll 1
      for (int piece = lane_ % 4; piece < Shape::kPieces; piece += 4) {
        StoreShared16(ring_.B(stage) + Shape::PlaceOfB(rank, piece),
                      LoadElements(b, Shape::ColumnOf(lora_, slice, columns, piece), n));
      }
      return;
    }
#pragma unroll
    for (int begin = 0; begin < Shape::kPieces; begin += 4) {
      const int piece = begin + lane_ % 4;
      if (Shape::kPieces % 4 != 0 && piece >= Shape::kPieces) continue;
      const int column = Shape::ColumnOf(lora_, slice, columns, piece);
      const bool inside = b != nullptr && column >= 0 && column < n;
      CopyLineAsync(ring_.B(stage) + Shape::PlaceOfB(rank, piece),
                    inside ? b + column : args_.h.data, inside);
    }
  }

  // Loads this warp's half of the rows of h, with four lanes for each.
  __device__ __forceinline__ void LoadH(int stage, int row, const Cursor& at) const {
    const int first = ring_.table->first[at.segment];
    const int last = ring_.table->last[at.segment];
    const int column = lane_ % 4;
    const int my_row = warp_ * 8 + lane_ / 4;
    const uint16_t* h =
        args_.h.At(int64_t{at.slice} * lora_.num_rows + row + my_row, at.rank_tile) + column * 8;
    const int64_t step = int64_t{args_.h.rank_tiles} * (kLoraLoaders * 8 * lora::kPackElements);
    const uint32_t target = ring_.H(stage) + column * Shape::kHColumnBytes + my_row * 16;
#pragma unroll
    for (int i = 0; i < Shape::kRows; i += kLoraLoaders * 8, h += step) {
      const bool present = first <= my_row + i && my_row + i <= last;
      CopyLineAsync(target + i * 16, present ? h : args_.h.data, present);
    }
  }

  const GemmLoraArgs& args_;
  const LoraArgs& lora_;
  const GemmLoraRing<Shape>& ring_;
  const int warp_;
  const int lane_;
  uint32_t tile_ = 0;
  int item_ = 0;  // number of the next item to load
  int told_ = 0;  // number of the next item to announce
};

// What one of the multiplying warpgroups does: adds LoRA's terms to a tile's sums.
template <typename Shape>
class GemmLoraAdder {
 public:
  static constexpr int kWidth = Shape::kSwapped ? Shape::kRows : Shape::kColumns;
  static constexpr int kSums = kWidth / 2;

  // The arguments are those of the GEMM's kernel.
  __device__ GemmLoraAdder(const auto& args, const auto& ring)
      : num_slices_(args.lora.lora.num_slices),
        ring_(ring.lora),
        first_(static_cast<int>(threadIdx.x) / 128 * 64) {}

  // Adds LoRA's terms to the sums of the next tile.
  __device__ __forceinline__ void Add(float (&sum)[kSums]) {
    BarrierWait(ring_.TableFull(), tile_ & 1);
#pragma unroll 1
    for (GemmLoraCursor<Shape::kRows> at(*ring_.table, num_slices_); !at.Done(); at.Next()) {
      const int stage = ring_.StageOf(item_);
      BarrierWait(ring_.Full(stage), ring_.LapOf(item_) & 1);
      const bool is_mine = Shape::kSwapped || (ring_.table->first[at.segment] < first_ + 64 &&
                                               ring_.table->last[at.segment] >= first_);
      if (is_mine) Multiply(stage, sum);
      // One lane arrives for its warp. Before it does, all lanes must have read the stage and must
      // have passed the wait for the full barrier: once the stage is filled anew, that barrier's
      // parity looks to a late lane as if it were not full.
      __syncwarp();
      if (threadIdx.x % 32 == 0) BarrierArrive(ring_.Empty(stage));
      ++item_;
    }
    BarrierArrive(ring_.TableEmpty());
    ++tile_;
  }

 private:
  __device__ __forceinline__ void Multiply(int stage, float (&sum)[kSums]) const {
    constexpr WgmmaByRows kBByRows = Shape::kSwapped ? WgmmaByRows::kFirst : WgmmaByRows::kSecond;
    const uint32_t b_shift = Shape::kSwapped ? first_ / 64 * Shape::kGroupBytes : 0;
    const uint32_t h_shift = Shape::kSwapped ? 0 : first_ * 16;
    const uint64_t b = WgmmaOperandOfRows(ring_.B(stage) + b_shift, Shape::kGroupBytes);
    WgmmaFence();
#pragma unroll
    for (int number = 0; number < 2; ++number) {
      const uint64_t h = WgmmaOperandOfColumns(
          ring_.H(stage) + number * 2 * Shape::kHColumnBytes + h_shift, Shape::kHColumnBytes);
      Wgmma<DType::kBF16, kWidth, kBByRows>::Multiply(Shape::kSwapped ? b : h,
                                                      Shape::kSwapped ? h : b, 1, sum);
    }
    WgmmaCommit();
    WgmmaWait<0>();
    WgmmaKeep(sum);
  }

  const int num_slices_;
  const GemmLoraRing<Shape>& ring_;
  const int first_;  // first row, or in a swapped tile first column, of this warpgroup
  uint32_t tile_ = 0;
  int item_ = 0;
};

#endif  // GRAFT_HOPPER

}  // namespace graft
