// LoRA's expand inside Hopper's GEMM, for prompts: y's sums end with scale * h B^T, so that y is
// written once. Last, so that it comes from memory while x and W are multiplied. 16 ranks of one
// segment ("an item") are as good as two more steps of k: scale * h of the tile's rows, as two bf16
// numbers (lora_pack.cuh), zeros in the rows of others, times the tile's columns of B. Two warps
// beside the producer list the segments of a tile's rows and bring its items through a ring of its
// own, while x and W are multiplied.
//
// What is added to an element, and in which order, depends on its own row's adapter alone: slices,
// then tiles of 16 ranks, ascending; of others only zeros, for all of B's elements are finite
// (model/lora_weights.h).
#pragma once

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/lora/lora.h"
#include "kernels/lora/lora_pack.cuh"

#if defined(GRAFT_HOPPER)
#include "kernels/common/cuda_wgmma.cuh"
#endif

namespace graft {

inline constexpr int kLoraStagesMaxLog2 = 4;
inline constexpr int kLoraLoaders = 2;  // warps
// Full and empty of each stage, and of the table.
inline constexpr int kLoraBarrierBytes = (2 << kLoraStagesMaxLog2) * 8 + 16;

struct GemmLoraArgs {
  LoraArgs lora;
  lora::PackedH h;
  int num_stages_log2 = 0;
  bool vectors = false;  // slices begin and end on 16 bytes of B's rows
};

// The segments with work in a tile of kRows rows, in shared memory. Neighbours of one adapter are
// one.
template <int kRows>
struct GemmLoraTable {
  int32_t num_segments;
  uint8_t has_slice[kLoraSlicesMax];
  int32_t slot[kRows];
  uint8_t first[kRows];  // rows, counted from the tile's first
  uint8_t last[kRows];
  uint8_t num_items[kLoraSlicesMax][kRows];  // tiles of ranks
};

// Walks over a tile's items in the order in which they go through the ring.
template <int kRows>
struct GemmLoraCursor {
  const GemmLoraTable<kRows>& table;
  int num_slices;
  int slice = 0;
  int segment = -1;
  int rank_tile = -1;

  __device__ GemmLoraCursor(const GemmLoraTable<kRows>& table_of, int num_slices_of)
      : table(table_of), num_slices(num_slices_of) {
    Next();
  }
  __device__ bool Done() const { return slice == num_slices; }
  __device__ void Next() {
    ++rank_tile;
    while (segment < 0 || table.num_items[slice][segment] <= rank_tile) {
      rank_tile = 0;
      if (++segment < table.num_segments && table.has_slice[slice] != 0) continue;
      segment = -1;
      if (++slice == num_slices) return;
    }
  }
};

// Which columns of y a tile holds: from `first` on, plain neighbours where gap is 0. Else up's
// beside the gate's: from the middle of its pieces of eight on they lie `gap` further; in swapped
// tiles pieces of the gate's and of up's, `gap` further, take turns.
struct GemmTileColumns {
  int first;
  int gap;
};

// kRowsOf x kColumnsOf: the GEMM's tile. kWarpsOf: those that multiply.
template <int kRowsOf, int kColumnsOf, int kWarpsOf, bool kSwappedOf>
struct GemmLoraShape {
  static constexpr int kRows = kRowsOf;
  static constexpr int kColumns = kColumnsOf;
  static constexpr int kWarps = kWarpsOf;
  static constexpr bool kSwapped = kSwappedOf;
  static constexpr int kPieces = kColumns / 8;  // 16 bytes of a rank's row of B
  static constexpr int kMiddle = kPieces / 2;   // see GemmTileColumns
  // A stage. B's ranks lie in rows of 64 columns, 16 of them before the next 64 columns', swizzled
  // as the copy engine would: what wgmma calls the second operand transposed, or the first where
  // the tile is swapped.
  static constexpr int kGroupBytes = lora::kPackRanks * 128;
  static constexpr int kBBytes = (kColumns + 63) / 64 * kGroupBytes;
  // h's rows lie in four columns of 16 bytes: ranks 0 to 7 and 8 to 15 of the first number, then of
  // the second.
  static constexpr int kHColumnBytes = kRows * 16;
  static constexpr int kStageBytes = kBBytes + 4 * kHColumnBytes;
  static constexpr int kTableBytes = (sizeof(GemmLoraTable<kRows>) + 15) / 16 * 16;
  static_assert(kColumns % 8 == 0 && kRows <= 256 && kStageBytes % 1024 == 0);

  static __device__ uint32_t PlaceOfB(int rank, int piece) {
    return piece / 8 * kGroupBytes + rank * 128 + (piece % 8 ^ rank % 8) * 16;
  }
  // The column of a slice at which a piece begins; negative before it.
  static __device__ int ColumnOf(const LoraArgs& lora, int slice, GemmTileColumns columns,
                                 int piece) {
    const int first = columns.first - static_cast<int>(lora.slice_begin[slice]);
    if (kSwapped && columns.gap != 0) return first + piece / 2 * 8 + piece % 2 * columns.gap;
    return first + piece * 8 + (piece < kMiddle ? 0 : columns.gap);
  }
  static __device__ bool HasColumns(const LoraArgs& lora, int slice, GemmTileColumns columns) {
    const int n = static_cast<int>(lora.slice_n[slice]);
    const int first = ColumnOf(lora, slice, columns, 0);
    const int second = ColumnOf(lora, slice, columns, kSwapped && columns.gap != 0 ? 1 : kMiddle);
    return (first < n && first + kMiddle * 8 > 0) ||
           (second < n && second + kColumns - kMiddle * 8 > 0);
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

  // By all threads, before they meet.
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

// 16 bytes from global to shared memory, both on borders of 16 bytes; zeros where !present.
__device__ __forceinline__ void CopyPiece(uint32_t target, const void* source, bool present) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
               "r"(present ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void StorePiece(uint32_t target, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ __forceinline__ void WaitForAllCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Elements [begin, begin + 8) of a row of n, zeros outside it.
__device__ __noinline__ uint4 LoadElements(const uint16_t* row, int begin, int n) {
  uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int at = begin + i;
    const uint32_t bits = row != nullptr && at >= 0 && at < n ? row[at] : 0;
    words[i / 2] |= bits << (i % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

// One of the loading warps.
template <typename Shape>
class GemmLoraLoader {
 public:
  __device__ GemmLoraLoader(const GemmLoraArgs& args, const GemmLoraRing<Shape>& ring, int warp)
      : args_(args),
        lora_(args.lora),
        ring_(ring),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // All items of the tile from row `row` on.
  __device__ void LoadTile(int row, GemmTileColumns columns) {
    if (warp_ == 0) {
      if (tile_ > 0) BarrierWait(ring_.TableEmpty(), (tile_ - 1) & 1);
      ListSegments(row, columns);
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
  static constexpr int kRanks = lora::kPackRanks / kLoraLoaders;  // of an item, this warp's
  static constexpr int kAhead = 32 / kRanks;  // items whose rows are looked up at a time

  __device__ LoraSegment SegmentAt(int i) const {
    return i < lora_.num_segments ? lora_.segments[i] : LoraSegment{};
  }

  __device__ void ListSegments(int row, GemmTileColumns columns) const {
    GemmLoraTable<Shape::kRows>& table = *ring_.table;
    int count = 0;
    LoraSegment next = SegmentAt(lane_);
#pragma unroll 1
    for (int i = lane_; i - lane_ < lora_.num_segments; i += 32) {
      const LoraSegment segment = next;
      next = SegmentAt(i + 32);
      const int first = max(segment.row_begin - row, 0);
      const int end = min(segment.row_end - row, Shape::kRows);
      const bool is_here = first < end;
      const int slot_before = __shfl_up_sync(~0u, segment.adapter_slot, 1);
      const int end_before = __shfl_up_sync(~0u, is_here ? end : -1, 1);
      const bool continues =
          lane_ > 0 && is_here && end_before == first && slot_before == segment.adapter_slot;
      const uint32_t begins = __ballot_sync(~0u, is_here && !continues);
      const bool is_continued = __shfl_down_sync(~0u, continues, 1) && lane_ < 31;
      const int at = count + __popc(begins & (~0u >> (31 - lane_))) - 1;
      if (is_here && !continues) {
        table.slot[at] = segment.adapter_slot;
        table.first[at] = static_cast<uint8_t>(first);
        for (int slice = 0; slice < lora_.num_slices; ++slice) {
          const int rank = MatrixOf(segment.adapter_slot, slice).rank;
          table.num_items[slice][at] =
              static_cast<uint8_t>((rank + lora::kPackRanks - 1) / lora::kPackRanks);
        }
      }
      if (is_here && !is_continued) table.last[at] = static_cast<uint8_t>(end - 1);
      count += __popc(begins);
    }
    if (lane_ == 0) table.num_segments = count;
    if (lane_ < lora_.num_slices) {
      table.has_slice[lane_] = Shape::HasColumns(lora_, lane_, columns) ? 1 : 0;
    }
    __syncwarp();
  }

  __device__ const LoraMatrix& MatrixOf(int slot, int slice) const {
    return lora_.matrices[slot * lora_.matrices_stride + slice];
  }

  // Rows of B of the next items, null past a rank: this lane's is rank lane % kRanks of the warp's,
  // of the item lane / kRanks further.
  __device__ const uint16_t* LookUp(Cursor at) const {
    for (int i = lane_ / kRanks; i > 0 && !at.Done(); --i) at.Next();
    if (at.Done()) return nullptr;
    const LoraMatrix& matrix = MatrixOf(ring_.table->slot[at.segment], at.slice);
    const int rank = at.rank_tile * lora::kPackRanks + warp_ * kRanks + lane_ % kRanks;
    return rank < matrix.rank ? static_cast<const uint16_t*>(matrix.b_rows[rank]) : nullptr;
  }

  // b: the row of rank lane / 4 of the warp's.
  __device__ __forceinline__ void LoadItem(int row, GemmTileColumns columns, const Cursor& at,
                                           const uint16_t* b) {
    const int stage = ring_.StageOf(item_);
    const int lap = ring_.LapOf(item_);
    if (lap > 0 && !BarrierIsOver(ring_.Empty(stage), (lap - 1) & 1)) {
      TellLoaded();  // whoever must leave the stage may wait for these
      BarrierWait(ring_.Empty(stage), (lap - 1) & 1);
    }
    LoadB(stage, at.slice, b, columns);
    if (item_++ == 0) WaitForPrevious();  // h is no constant
    LoadH(stage, row, at);
  }

  // The copies are ordinary ones, to be made known to matrix instructions. Here, not by those who
  // multiply, whose products would wait for it: that took LoRA's share of a layer of 2,048 rows,
  // without the shrink, from 86 to 33 us (workshop/cuda_gemm.md). How long it takes here was not
  // measured.
  __device__ void TellLoaded() {
    if (told_ == item_) return;
    WaitForAllCopies();
    FenceForAsync();
    for (; told_ < item_; ++told_) BarrierArrive(ring_.Full(ring_.StageOf(told_)));
  }

  // This warp's half of an item's ranks, four lanes each. Unrolled, as LoadH: a warp's instructions
  // one after the other would take longer than the bytes.
  __device__ __forceinline__ void LoadB(int stage, int slice, const uint16_t* b,
                                        GemmTileColumns columns) const {
    const int rank = warp_ * kRanks + lane_ / 4;
    const int n = static_cast<int>(lora_.slice_n[slice]);
    const bool on_border = (reinterpret_cast<uintptr_t>(b) & 15) == 0;
    if (__all_sync(~0u, on_border) == 0 || !args_.vectors) {
#pragma unroll 1
      for (int piece = lane_ % 4; piece < Shape::kPieces; piece += 4) {
        StorePiece(ring_.B(stage) + Shape::PlaceOfB(rank, piece),
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
      CopyPiece(ring_.B(stage) + Shape::PlaceOfB(rank, piece), inside ? b + column : args_.h.data,
                inside);
    }
  }

  // This warp's half of the rows' h, four lanes a row.
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
      CopyPiece(target + i * 16, present ? h : args_.h.data, present);
    }
  }

  const GemmLoraArgs& args_;
  const LoraArgs& lora_;
  const GemmLoraRing<Shape>& ring_;
  const int warp_;
  const int lane_;
  uint32_t tile_ = 0;
  int item_ = 0;  // the next one's number
  int told_ = 0;  // the next one's that is to be announced
};

// One of the multiplying warpgroups: what of a tile's sums LoRA brings.
template <typename Shape>
class GemmLoraAdder {
 public:
  static constexpr int kWidth = Shape::kSwapped ? Shape::kRows : Shape::kColumns;
  static constexpr int kSums = kWidth / 2;

  // Of what the GEMM's kernel holds.
  __device__ GemmLoraAdder(const auto& args, const auto& ring)
      : num_slices_(args.lora.lora.num_slices),
        ring_(ring.lora),
        first_(static_cast<int>(threadIdx.x) / 128 * 64) {}

  // To the next tile's sums.
  __device__ __forceinline__ void Add(float (&sum)[kSums]) {
    BarrierWait(ring_.TableFull(), tile_ & 1);
#pragma unroll 1
    for (GemmLoraCursor<Shape::kRows> at(*ring_.table, num_slices_); !at.Done(); at.Next()) {
      const int stage = ring_.StageOf(item_);
      BarrierWait(ring_.Full(stage), ring_.LapOf(item_) & 1);
      const bool is_mine = Shape::kSwapped || (ring_.table->first[at.segment] < first_ + 64 &&
                                               ring_.table->last[at.segment] >= first_);
      if (is_mine) Multiply(stage, sum);
      // One lane arrives for its warp: by then the others must have read the stage, and have seen
      // it full. Once it is full anew the barrier's parity would tell them that it is not.
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
  const int first_;  // row of the warpgroup in the tile, or its column
  uint32_t tile_ = 0;
  int item_ = 0;
};

#endif  // GRAFT_HOPPER

}  // namespace graft
