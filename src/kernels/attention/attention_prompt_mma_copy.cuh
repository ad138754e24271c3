// What a block of prompt attention without Hopper's instructions brings to its multiprocessor: keys
// and values from their pages, by cp.async, and queries, which are fp32 rows of a model's
// projection, rounded to T.
#pragma once

#include "kernels/attention/attention_prompt_mma_shape.cuh"
#include "kernels/common/cuda_copy.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft::attention {

// A warp's positions of each tile. Looking up their pages is a tile ahead of their use.
template <typename Shape>
class MmaCopier {
  using T = typename Shape::T;
  static constexpr int kRows = Shape::kTile / Shape::kWarps;
  static constexpr int kCopies = kRows * Shape::kChunks / 32;  // of a lane
  static constexpr uint32_t kHidden = 0xffffffffu;
  static_assert(kRows <= 32 && kRows * Shape::kChunks % 32 == 0);

 public:
  __device__ __forceinline__ explicit MmaCopier(const AttentionArgs& args)
      : args_(args),
        first_row_(static_cast<int>(threadIdx.x) / 32 * kRows),
        has_runs_(args.layout.page_tokens % kRows == 0 && args.layout.head_dim == Shape::kDim) {}

  __device__ __forceinline__ void StartItem(const PromptItem& item) {
    head_ =
        static_cast<const T*>(args_.pool) + args_.layout.KeyOffset(0, args_.layer, item.kv_head, 0);
  }

  // Positions that no query of the item sees, or that are not there yet, will read as zeros.
  __device__ __forceinline__ void FindPages(const PromptItem& item, int tile) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int position = tile * Shape::kTile + first_row_ + lane % kRows;
    page_ = -1;
    if (position < item.visible_begin || position >= item.kv_tokens) return;
    const int page = position / args_.layout.page_tokens;
    slot_ = position - page * args_.layout.page_tokens;
    page_ = args_.pages[item.page_begin + page];
  }
  // Both copy from the tile for which pages were found last.
  __device__ __forceinline__ void CopyKeys(uint32_t target) const { Copy(target, head_); }
  __device__ __forceinline__ void CopyValues(uint32_t target) const {
    Copy(target, head_ + args_.layout.KeyElements());
  }

 private:
  __device__ __forceinline__ void Copy(uint32_t target, const T* source) const {
    const KvLayout& layout = args_.layout;
    // From the pool's start, in rows of head_dim elements.
    const uint32_t page_rows = layout.num_layers * 2 * layout.num_kv_heads * layout.page_tokens;
    const uint32_t row =
        page_ < 0 ? kHidden
                  : static_cast<uint32_t>(page_) * page_rows + static_cast<uint32_t>(slot_);
    if (__all_sync(0xffffffffu, has_runs_ && page_ >= 0)) {
      CopyRun(target, source, row);
    } else {
      CopySome(target, source, row);
    }
  }

  // All of the warp's rows, which lie one after the other.
  __device__ __forceinline__ void CopyRun(uint32_t target, const T* source, uint32_t first) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const T* p = source + int64_t{__shfl_sync(0xffffffffu, first, 0)} * Shape::kDim + lane * 8;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int unit = i * 32 + lane;
      const int row = first_row_ + unit / Shape::kChunks;
      CopyLineAsync(target + Shape::Offset(row, unit % Shape::kChunks), p + i * 32 * 8);
    }
  }

  // Row by row, hidden ones and dimensions behind the head's last as zeros.
  __device__ __forceinline__ void CopySome(uint32_t target, const T* source,
                                           uint32_t own_row) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int head_dim = args_.layout.head_dim;
#pragma unroll 1
    for (int i = 0; i < kCopies; ++i) {
      const int unit = i * 32 + lane;
      const int row = unit / Shape::kChunks, chunk = unit % Shape::kChunks;
      const uint32_t from = __shfl_sync(0xffffffffu, own_row, row);
      const bool present = chunk * 8 < head_dim && from != kHidden;
      const T* p = source + (present ? int64_t{from} * head_dim + chunk * 8 : 0);
      CopyLineAsync(target + Shape::Offset(first_row_ + row, chunk), p, present);
    }
  }

  const AttentionArgs& args_;
  const int first_row_;  // of a tile, the warp's
  const bool has_runs_;  // the warp's rows of a tile lie in one page, one after the other
  const T* head_ = nullptr;
  // The lane's position is in these.
  int32_t page_ = -1;
  int32_t slot_ = 0;
};

// Where an item's queries lie.
struct MmaQuerySource {
  const Params& params;
  const PromptItem& item;

  // `count` dimensions of a query from dim on; zeros behind the head's last and the item's last.
  template <bool kVectors, int kCount>
  __device__ __forceinline__ void Read(int query, int dim, float (&values)[kCount]) const {
    const AttentionArgs& args = params.args;
    const int row = params.RowOf(query);
    const int head = item.kv_head * params.group + query - row * params.group;
    const bool present = query < item.num_queries && dim < args.layout.head_dim;
    const float* const p = args.q + (item.row_begin + row) * args.q_stride +
                           static_cast<int64_t>(head) * args.layout.head_dim + dim;
    if constexpr (kVectors && kCount == 2) {
      const float2 pair = present ? *reinterpret_cast<const float2*>(p) : float2{0.0f, 0.0f};
      values[0] = pair.x, values[1] = pair.y;
    } else {
      LoadRun<kVectors>(p, present ? kCount : 0, values);
    }
  }
};

// A warp's queries, as operands.
template <typename Shape, bool kKeeps = Shape::kKeepsQueries>
class MmaQueries;

// In registers.
template <typename Shape>
class MmaQueries<Shape, true> {
 public:
  __device__ __forceinline__ explicit MmaQueries(uint32_t /*shared*/) {}

  // warp_query: the warp's first, in the numbers of the item.
  template <bool kVectors>
  __device__ __forceinline__ void Bring(const MmaQuerySource& source, int warp_query) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
      for (int k = 0; k < Shape::kDim / 16; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float pair[2];
          source.Read<kVectors>(warp_query + 16 * m + i % 2 * 8 + lane / 4,
                                16 * k + i / 2 * 8 + lane % 4 * 2, pair);
          operands_[m][k][i] = PackPair<typename Shape::T>(pair[0], pair[1]);
        }
      }
    }
  }
  __device__ __forceinline__ void Load(int k, uint32_t (&query)[Shape::kRowTiles][4]) const {
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) query[m][i] = operands_[m][k][i];
    }
  }

 private:
  uint32_t operands_[Shape::kRowTiles][Shape::kDim / 16][4];
};

// In shared memory, rows of a warp's own.
template <typename Shape>
class MmaQueries<Shape, false> {
 public:
  // shared: where those of the block begin.
  __device__ __forceinline__ explicit MmaQueries(uint32_t shared)
      : rows_(shared +
              static_cast<uint32_t>(threadIdx.x) / 32 * Shape::kWarpQueries * Shape::kRowBytes) {}

  template <bool kVectors>
  __device__ __forceinline__ void Bring(const MmaQuerySource& source, int warp_query) const {
    constexpr int kRuns = Shape::kDim / 4;  // of four dimensions, of a query
    constexpr int kAll = Shape::kWarpQueries * kRuns / 32;
    constexpr int kBatch = kVectors ? 8 : 2;  // at once
    static_assert(kAll % kBatch == 0);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < kAll; first += kBatch) {
      float values[kBatch][4];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int run = (first + i) * 32 + lane;
        source.Read<kVectors>(warp_query + run / kRuns, run % kRuns * 4, values[i]);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int run = (first + i) * 32 + lane;
        const int chunk = run % kRuns / 2;
        StoreShared8(rows_ + Shape::Offset(run / kRuns, chunk) + run % 2 * 8,
                     PackPair<typename Shape::T>(values[i][0], values[i][1]),
                     PackPair<typename Shape::T>(values[i][2], values[i][3]));
      }
    }
    __syncwarp();
  }
  __device__ __forceinline__ void Load(int k, uint32_t (&query)[Shape::kRowTiles][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane % 16;
    const uint32_t swizzle = ((lane / 16) ^ Shape::Swizzle(row)) * 16;
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
      LoadMatrices(rows_ + (16 * m + row) * Shape::kRowBytes + (swizzle ^ (k * 32)), query[m]);
    }
  }

 private:
  const uint32_t rows_;
};

}  // namespace graft::attention
