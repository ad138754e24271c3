// LoRA's expand inside the GEMM by mma.sync (gemm_mma.cuh), as inside Hopper's
// (gemm_hopper_lora.cuh): after k's stages, a tile's items (gemm_lora_items.cuh) pass through the
// same ring. A stage then has 16 ranks of B by the tile's columns where W was, and h of the tile's
// rows where x was: the first numbers of 16 ranks, then the second ones. So an item costs as much
// as two more pieces of 16 columns of k.
#pragma once

#include "kernels/common/cuda_copy.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/gemm/gemm_mma_operands.cuh"
#include "kernels/gemm/gemm_mma_shape.cuh"

namespace graft::mma {

// The rows of B of so many items are looked up at a time: a look-up costs two latencies of memory.
inline constexpr int kItemsAhead = 4;

// Behind the ring. What one thread writes here all others read after the block's next barrier.
template <typename Shape>
struct LoraState {
  struct Place {
    int slice;
    int segment;
    int rank_tile;
  };
  GemmLoraTable<Shape::kRows> table;
  int num_items;
  Place next[2];                  // where the next item to load stands, and the one after it
  uint8_t first[Shape::kStages];  // rows of the item in a stage
  uint8_t last[Shape::kStages];
  const uint16_t* b_rows[kItemsAhead][lora::kPackRanks];
};

template <typename Shape>
class LoraItems {
 public:
  __device__ __forceinline__ LoraItems(const typename Shape::Args& args, LoraState<Shape>* state,
                                       uint32_t ring, int row, int column_tile)
      : args_(args),
        lora_(args.lora.lora),
        state_(*state),
        ring_(ring),
        row_(row),
        columns_(Shape::ColumnsOf(args, column_tile)) {}

  // Lists the tile's items. Segments and matrices may be read while earlier kernels run. All
  // threads call it.
  __device__ __forceinline__ void List() const {
    if (Thread() < 32) {
      ListLoraSegments(lora_, row_, state_.table);
      if (Thread() < lora_.num_slices) {
        state_.table.has_slice[Thread()] = Columns::HasColumns(lora_, Thread(), columns_) ? 1 : 0;
      }
      __syncwarp();
      const int num_items = Count();
      if (Thread() == 0) {
        state_.num_items = num_items;
        Put(Cursor(state_.table, lora_.num_slices), state_.next[0]);
      }
    }
    __syncthreads();
    LookUp(CursorOf(0));
  }

  __device__ __forceinline__ int num_items() const { return state_.num_items; }

  // Begins to copy item `item` to the stage. A barrier of the block is between any two calls, and
  // between List and the first.
  __device__ __forceinline__ void Load(int item, int stage) const {
    const Cursor at = CursorOf(item);
    if (item > 0 && item % kItemsAhead == 0) {
      LookUp(at);
      __syncthreads();
    }
    LoadB(item, stage, at);
    if (item == 0) WaitForPrevious();  // the kernel before this one writes h
    LoadH(stage, at);
    if (Thread() == 0) {
      state_.first[stage] = state_.table.first[at.segment];
      state_.last[stage] = state_.table.last[at.segment];
      Cursor after = at;
      after.Next();
      Put(after, state_.next[(item + 1) % 2]);
    }
  }

  // Adds the item in the stage to this warp's sums.
  __device__ __forceinline__ void Add(int stage, Sums<Shape>& sums) const {
    const WarpPlace<Shape> warp;
    // Rows of others would add zeros.
    if (state_.first[stage] >= warp.row + Shape::kRowParts * 8 || state_.last[stage] < warp.row) {
      return;
    }
    const int lane = Thread() % 32;
    const uint32_t b = ring_ + stage * Shape::StageBytes(args_);
    const uint32_t h = b + Shape::WBytes(args_);
    const int b_place = LyingPlace<Shape>(warp, lane);
    const int h_place = PlaceOf<kHBytes>(XReader<Shape>::RowOf(warp, lane), lane / 8 % 2);
    Fragments<Shape> operands;
#pragma unroll
    for (int i = 0; i < Shape::kColumnParts; ++i) {
      LoadMatricesTransposed(b + (b_place ^ i * 32), operands.w[i]);
    }
#pragma unroll
    for (int number = 0; number < 2; ++number) {
#pragma unroll
      for (int i = 0; i < Shape::kRowParts / 2; ++i) {
        LoadMatrices(h + (h_place ^ number * 32) + i * 16 * kHBytes, operands.x[i]);
      }
      Multiply<Shape>(operands, sums);
    }
  }

 private:
  using Cursor = GemmLoraCursor<Shape::kRows>;
  using Columns = GemmLoraColumns<Shape::kColumns, true>;
  static constexpr int kHBytes = lora::kPackElements * 2;  // of a row of h in a stage
  static constexpr int kBPiecesOfRow = Shape::kColumns / 8;
  static constexpr int kBRowStep = Shape::kThreads / kBPiecesOfRow;
  static constexpr int kHRowStep = Shape::kThreads / 4;
  static_assert(Shape::kRowParts % 2 == 0 && kHBytes == 64);
  static_assert(kBRowStep % 8 == 0 && lora::kPackRanks % kBRowStep == 0);  // for PlaceOf
  static_assert(kHRowStep % 8 == 0 && Shape::kRows % kHRowStep == 0);
  static_assert(Shape::kThreads >= kItemsAhead * lora::kPackRanks);
  static_assert(lora::kPackRanks * Shape::kLyingBytes <=
                    Shape::kColumns * 64 &&  // what W takes of a stage at least
                Shape::kRows * kHBytes <= Shape::kRows * Shape::kRowBytes);

  static __device__ int Thread() { return static_cast<int>(threadIdx.x); }

  static __device__ __forceinline__ void Put(const Cursor& at,
                                             typename LoraState<Shape>::Place& place) {
    place = {at.slice, at.segment, at.rank_tile};
  }
  __device__ __forceinline__ Cursor CursorOf(int item) const {
    const auto& place = state_.next[item % 2];
    return {state_.table, lora_.num_slices, place.slice, place.segment, place.rank_tile};
  }

  // One warp counts.
  __device__ __forceinline__ int Count() const {
    int count = 0;
    for (int slice = 0; slice < lora_.num_slices; ++slice) {
      if (state_.table.has_slice[slice] == 0) continue;
      for (int i = Thread(); i < state_.table.num_segments; i += 32) {
        count += state_.table.num_items[slice][i];
      }
    }
    return __reduce_add_sync(~0u, count);
  }

  // Finds the rows of B of the next kItemsAhead items. Null where a matrix has no such rank.
  __device__ __forceinline__ void LookUp(Cursor at) const {
    const int ahead = Thread() / lora::kPackRanks;
    const int rank = Thread() % lora::kPackRanks;
    if (ahead >= kItemsAhead) return;
    for (int i = 0; i < ahead && !at.Done(); ++i) at.Next();
    const uint16_t* row = nullptr;
    if (!at.Done()) {
      const LoraMatrix& matrix = LoraMatrixOf(lora_, state_.table.slot[at.segment], at.slice);
      const int matrix_row = at.rank_tile * lora::kPackRanks + rank;
      if (matrix_row < matrix.rank) row = static_cast<const uint16_t*>(matrix.b_rows[matrix_row]);
    }
    state_.b_rows[ahead][rank] = row;
  }

  __device__ __forceinline__ void LoadB(int item, int stage, const Cursor& at) const {
    const int piece = Thread() % kBPiecesOfRow;
    const int column = Columns::ColumnOf(lora_, at.slice, columns_, piece);
    const int n = static_cast<int>(lora_.slice_n[at.slice]);
    const uint32_t target = ring_ + stage * Shape::StageBytes(args_);
#pragma unroll
    for (int first = 0; first < lora::kPackRanks; first += kBRowStep) {
      const int rank = first + Thread() / kBPiecesOfRow;
      const uint16_t* const b = state_.b_rows[item % kItemsAhead][rank];
      const uint32_t to = target + PlaceOf<Shape::kLyingBytes>(rank, piece);
      if (args_.lora.vectors && reinterpret_cast<uintptr_t>(b) % 16 == 0) {
        const bool present = b != nullptr && column >= 0 && column < n;
        CopyAsync(to, present ? b + column : args_.lora.h.data, present);
      } else {
        StoreShared16(to, LoadElements(b, column, n));
      }
    }
  }

  __device__ __forceinline__ void LoadH(int stage, const Cursor& at) const {
    const int first = state_.table.first[at.segment];
    const int last = state_.table.last[at.segment];
    const int piece = Thread() % 4;
    const uint32_t target = ring_ + stage * Shape::StageBytes(args_) + Shape::WBytes(args_);
#pragma unroll
    for (int begin = 0; begin < Shape::kRows; begin += kHRowStep) {
      const int row = begin + Thread() / 4;
      const bool present = first <= row && row <= last;
      const uint16_t* const h =
          args_.lora.h.At(int64_t{at.slice} * lora_.num_rows + row_ + row, at.rank_tile) +
          piece * 8;
      CopyAsync(target + PlaceOf<kHBytes>(row, piece), present ? h : args_.lora.h.data, present);
    }
  }

  const typename Shape::Args& args_;
  const LoraArgs& lora_;
  LoraState<Shape>& state_;
  const uint32_t ring_;
  const int row_;  // of the tile's first
  const GemmTileColumns columns_;
};

}  // namespace graft::mma
