// What decode by warps and decode by blocks share: the items of a launch, a row's queries, and
// where results go.
#pragma once

#include "kernels/attention/attention_work.cuh"

namespace graft::attention {

// One split for up to 8 kQueryTiles query heads.
struct SplitItem {
  bool exists;
  AttentionSplit split;
  int kv_head;
  int head_begin;  // among the key head's query heads
};

// The launch's items: of every split, in the order in which they are drawn, key heads and parts of
// their query heads.
template <int kQueryTiles>
class ItemList {
 public:
  __device__ __forceinline__ explicit ItemList(const Params& params)
      : params_(params), num_parts_((params.group + 8 * kQueryTiles - 1) / (8 * kQueryTiles)) {}

  __device__ __forceinline__ int count() const {
    return *params_.args.num_splits * ItemsPerSplit();
  }
  // Of `count`. The split is read before it is known whether the item exists.
  __device__ __forceinline__ SplitItem At(int item, int count) const {
    const int capacity = params_.args.num_sequences * params_.splits_max;
    const int part = item % ItemsPerSplit();
    return {item < count, params_.args.splits[min(item / ItemsPerSplit(), capacity - 1)],
            part / num_parts_, part % num_parts_ * 8 * kQueryTiles};
  }

 private:
  __device__ __forceinline__ int ItemsPerSplit() const {
    return params_.args.layout.num_kv_heads * num_parts_;
  }

  const Params& params_;
  const int num_parts_;
};

// The row's queries, one head a column, in registers as the tensor cores take them.
template <typename T, int kDim, int kQueryTiles>
struct RegisterQueries {
  uint32_t pairs[kDim / 16][kQueryTiles][2];

  __device__ __forceinline__ RegisterQueries(const Params& params, const SplitItem& item) {
    const AttentionArgs& args = params.args;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int head_dim = args.layout.head_dim;
    const float* row = args.q + item.split.row * args.q_stride;
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n) {
      const int head = item.head_begin + 8 * n + lane / 4;
      const float* q = row + (item.kv_head * params.group + head) * head_dim;
#pragma unroll
      for (int d = 0; d < kDim / 8; ++d) {
        const int dim = d * 8 + lane % 4 * 2;
        const bool is_inside = head < params.group && dim < head_dim;
        pairs[d / 2][n][d % 2] =
            is_inside ? PackPair<T>(q[dim], q[dim + 1]) : PackPair<T>(0.0f, 0.0f);
      }
    }
  }
  __device__ __forceinline__ void Load(int d, uint32_t (&query)[kQueryTiles][2]) const {
#pragma unroll
    for (int n = 0; n < kQueryTiles; ++n)
      query[n][0] = pairs[d][n][0], query[n][1] = pairs[d][n][1];
  }
};

// Of a split that is not its sequence's only one: to be merged later. state: of the head's
// dimensions from dim_begin on.
template <int kDim, int kQueryTiles>
__device__ __forceinline__ void WritePartial(const Params& params, const SplitItem& item,
                                             int dim_begin,
                                             const SplitState<kDim, kQueryTiles>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int head_dim = params.args.layout.head_dim;
  const int64_t first = (int64_t{item.split.sequence} * params.splits_max + item.split.index) *
                            params.args.num_heads +
                        item.kv_head * params.group + item.head_begin;
  const int num_heads = params.group - item.head_begin;
  WriteFloats(
      params.sums + dim_begin, head_dim - dim_begin,
      [&](int i) -> int64_t { return i < num_heads ? (first + i) * head_dim : -1; }, state);
  if (dim_begin > 0 || lane >= 4) return;
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = 8 * n + 2 * lane + j;
      if (i < num_heads) params.maxima[first + i] = {state.maximum[n][j], state.weight[n][j]};
    }
  }
}

// state: of the whole split, its weights reduced; of the head's dimensions from dim_begin on.
template <int kDim, int kQueryTiles>
__device__ __forceinline__ void FinishItem(const Params& params, const SplitItem& item,
                                           int dim_begin, SplitState<kDim, kQueryTiles>& state) {
  if (item.split.num_splits > 1) return WritePartial(params, item, dim_begin, state);
  const AttentionArgs& args = params.args;
  const int head_dim = args.layout.head_dim;
  const int num_heads = params.group - item.head_begin;
  const int64_t first =
      int64_t{item.split.row} * args.num_heads + item.kv_head * params.group + item.head_begin;
  WriteResults(
      params, [&](int i) -> int64_t { return i < num_heads ? (first + i) * head_dim : -1; }, state,
      dim_begin);
}

// An upper bound of a launch's items, see ItemList.
inline int64_t ItemsMax(const Params& params, int query_tiles) {
  return int64_t{params.args.num_sequences} * params.splits_max * params.args.layout.num_kv_heads *
         ((params.group + 8 * query_tiles - 1) / (8 * query_tiles));
}

}  // namespace graft::attention
