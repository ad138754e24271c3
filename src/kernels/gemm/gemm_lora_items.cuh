// What products with LoRA inside have in common, whatever multiplies (gemm_hopper_lora.cuh,
// gemm_mma_lora.cuh). The sums of y end with scale * h B^T. An "item" is 16 ranks of one segment.
// It multiplies scale * h of the tile's rows, as two bf16 numbers (lora_pack.cuh) and zero in the
// rows of other segments, by the tile's columns of B. A tile's items are in one order, slices
// ascending, then segments, then ranks, which is all that an element's bits depend on.
#pragma once

#include <cstdint>

#include "kernels/lora/lora.h"
#include "kernels/lora/lora_pack.cuh"

namespace graft {

struct GemmLoraArgs {
  LoraArgs lora;
  lora::PackedH h;
  int num_stages_log2 = 0;
  bool vectors = false;  // slices begin and end on 16-byte borders of B's rows
};

// The segments with work in a tile of kRows rows. Lies in shared memory. Neighbouring segments of
// one adapter are joined.
template <int kRows>
struct GemmLoraTable {
  int32_t num_segments;
  uint8_t has_slice[kLoraSlicesMax];
  int32_t slot[kRows];
  uint8_t first[kRows];  // row, counted from the tile's first
  uint8_t last[kRows];
  uint8_t num_items[kLoraSlicesMax][kRows];  // number of rank tiles
};

// Walks over a tile's items in the order in which they pass through the ring.
template <int kRows>
struct GemmLoraCursor {
  const GemmLoraTable<kRows>& table;
  int num_slices;
  int slice = 0;
  int segment = -1;
  int rank_tile = -1;

  // At the first item.
  __device__ GemmLoraCursor(const GemmLoraTable<kRows>& table_of, int num_slices_of)
      : table(table_of), num_slices(num_slices_of) {
    Next();
  }
  // Where another one stands.
  __device__ GemmLoraCursor(const GemmLoraTable<kRows>& table_of, int num_slices_of, int slice_of,
                            int segment_of, int rank_tile_of)
      : table(table_of),
        num_slices(num_slices_of),
        slice(slice_of),
        segment(segment_of),
        rank_tile(rank_tile_of) {}
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

// The columns of y in a tile. If gap is 0 they are neighbours, from `first` on. Else the tile has
// columns of the gate, from `first` on, and the same columns of up, `gap` further. An unswapped
// tile has the gate's pieces of eight columns in its first half and up's in its second. In a
// swapped tile the gate's and up's pieces take turns.
struct GemmTileColumns {
  int first;
  int gap;
};

// Where a tile of kColumns columns, in pieces of eight, lies in the slices of y. kInTurns: with a
// gap, pieces of the gate and of up take turns; else up has the second half of the pieces.
template <int kColumns, bool kInTurns>
struct GemmLoraColumns {
  static constexpr int kMiddle = kColumns / 16;  // the first piece of up's half
  // The column of a slice at which a piece begins. It is negative for a piece before the slice.
  static __device__ int ColumnOf(const LoraArgs& lora, int slice, GemmTileColumns columns,
                                 int piece) {
    const int first = columns.first - static_cast<int>(lora.slice_begin[slice]);
    if (kInTurns && columns.gap != 0) return first + piece / 2 * 8 + piece % 2 * columns.gap;
    return first + piece * 8 + (piece < kMiddle ? 0 : columns.gap);
  }
  static __device__ bool HasColumns(const LoraArgs& lora, int slice, GemmTileColumns columns) {
    const int n = static_cast<int>(lora.slice_n[slice]);
    const int first = ColumnOf(lora, slice, columns, 0);
    const int second = ColumnOf(lora, slice, columns, kInTurns && columns.gap != 0 ? 1 : kMiddle);
    return (first < n && first + kMiddle * 8 > 0) ||
           (second < n && second + kColumns - kMiddle * 8 > 0);
  }
};

__device__ __forceinline__ const LoraMatrix& LoraMatrixOf(const LoraArgs& lora, int slot,
                                                          int slice) {
  return lora.matrices[slot * lora.matrices_stride + slice];
}

// One warp lists the segments of the tile that begins at row `row`: all of the table but has_slice.
template <int kRows>
__device__ __forceinline__ void ListLoraSegments(const LoraArgs& lora, int row,
                                                 GemmLoraTable<kRows>& table) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto segment_at = [&](int i) {
    return i < lora.num_segments ? lora.segments[i] : LoraSegment{};
  };
  int count = 0;
  LoraSegment next = segment_at(lane);
#pragma unroll 1
  for (int i = lane; i - lane < lora.num_segments; i += 32) {
    const LoraSegment segment = next;
    next = segment_at(i + 32);
    const int first = max(segment.row_begin - row, 0);
    const int end = min(segment.row_end - row, kRows);
    const bool is_here = first < end;
    const int slot_before = __shfl_up_sync(~0u, segment.adapter_slot, 1);
    const int end_before = __shfl_up_sync(~0u, is_here ? end : -1, 1);
    const bool continues =
        lane > 0 && is_here && end_before == first && slot_before == segment.adapter_slot;
    const uint32_t begins = __ballot_sync(~0u, is_here && !continues);
    const bool is_continued = __shfl_down_sync(~0u, continues, 1) && lane < 31;
    const int at = count + __popc(begins & (~0u >> (31 - lane))) - 1;
    if (is_here && !continues) {
      table.slot[at] = segment.adapter_slot;
      table.first[at] = static_cast<uint8_t>(first);
      for (int slice = 0; slice < lora.num_slices; ++slice) {
        const int rank = LoraMatrixOf(lora, segment.adapter_slot, slice).rank;
        table.num_items[slice][at] =
            static_cast<uint8_t>((rank + lora::kPackRanks - 1) / lora::kPackRanks);
      }
    }
    if (is_here && !is_continued) table.last[at] = static_cast<uint8_t>(end - 1);
    count += __popc(begins);
  }
  if (lane == 0) table.num_segments = count;
  __syncwarp();
}

// Elements [begin, begin + 8) of a row of n elements; zeros outside the row.
inline __device__ __noinline__ uint4 LoadElements(const uint16_t* row, int begin, int n) {
  uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int at = begin + i;
    const uint32_t bits = row != nullptr && at >= 0 && at < n ? row[at] : 0;
    words[i / 2] |= bits << (i % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

}  // namespace graft
