// What the attention kernels are given, how they find their work on the device (the host knows
// bounds alone), and how keys and values come from their pages.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_softmax.cuh"
#include "tensor/device_traits.h"

namespace graft::attention {

struct Params {
  AttentionArgs args;
  float scale_log2;        // products times this are exponents of 2
  float cap_log2;          // the cap on such exponents; 0: none
  float cap_exponent;      // see CapScores
  int32_t group;           // query heads of a key head
  uint32_t group_inverse;  // 2^32 / group, rounded up; unused where group is 1
  int32_t window;          // a very large number for all
  int32_t splits_max;      // of a sequence
  int32_t* counters;       // zero between launches: items drawn and blocks done in prefill, and
                           // items drawn in decode
  float* sums;     // [num_sequences, splits_max, num_heads, head_dim] of decode rows' splits
  float2* maxima;  // [num_sequences, splits_max, num_heads]: maximum and weight
  int32_t prefill_rows_min;  // sequences with fewer rows are left to decode
  bool q_vectors;            // rows of q lie on 16-byte borders
  bool out_pairs;            // rows of out lie on 4-byte borders
  bool wait_late;            // the kernel before this one is of the same call, and independent

  // Queries are numbered row by row: query / group, exact while query * group is below 2^32.
  __device__ __forceinline__ int RowOf(int query) const {
    return group == 1 ? query
                      : static_cast<int>(__umulhi(static_cast<uint32_t>(query), group_inverse));
  }
};

void LaunchDecode(const Params& params, cudaStream_t stream);
void LaunchPrefill(const Params& params, cudaStream_t stream);
// For given rows only, where AttentionTellsGivenRows.
void LaunchPrompt(const Params& params, cudaStream_t stream);
void LaunchMergeSplits(const Params& params, cudaStream_t stream);

// The same without Hopper's instructions, for all heads by eights.
void LaunchPromptMma(const Params& params, cudaStream_t stream);

// How many thread blocks of a kernel run at once on the current device.
int ResidentBlocks(int blocks_per_multiprocessor);
// The shared memory of a block, where a multiprocessor is to run so many.
int BlockBytesMax(const DeviceTraits& traits, int blocks_per_multiprocessor);
// How many blocks of so much shared memory and so many threads a multiprocessor runs, at least 1
// and at most `most`, which their registers allow.
int BlocksPerMultiprocessor(const DeviceTraits& traits, int shared_bytes, int threads, int most);

// First position that the row at `position` sees.
__device__ __forceinline__ int FirstVisible(int position, int window) {
  return position < window ? 0 : position - window + 1;
}

// begins[i] = count(0) + ... + count(i - 1) for i in [0, n]; all threads of the block call it.
// begins: n + 1 elements of shared memory, warp_sums one per warp.
template <typename Count>
__device__ __forceinline__ void SumCounts(int n, int32_t* begins, int32_t* warp_sums,
                                          const Count& count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int num_warps = static_cast<int>(blockDim.x) / 32;
  int32_t before = 0;
  if (threadIdx.x == 0) begins[0] = 0;
  for (int first = 0; first < n; first += static_cast<int>(blockDim.x)) {
    const int i = first + static_cast<int>(threadIdx.x);
    int32_t sum = i < n ? count(i) : 0;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int32_t other = __shfl_up_sync(0xffffffffu, sum, distance);
      if (lane >= distance) sum += other;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    int32_t total = 0;
    for (int w = 0; w < num_warps; ++w) {
      if (w == warp) sum += before + total;
      total += warp_sums[w];
    }
    if (i < n) begins[i + 1] = sum;
    before += total;
    __syncthreads();
  }
  if (n == 0) __syncthreads();
}

// The last i with begins[i] <= value.
__device__ __forceinline__ int FindBegin(const int32_t* begins, int n, int32_t value) {
  int low = 0;
  int high = n;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (begins[middle] <= value) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// A block of a sequence's queries, of several that lie one after the other.
struct FoundBlock {
  int sequence;  // below 0: there are not so many blocks
  int block;     // of the sequence's
  int num_blocks;
};

// The block of that number, where sequence i of n has count(i) of them. All lanes of a warp call
// it; it needs no memory of the block, which fits a list of sequences beside its keys on few cards.
template <typename Count>
__device__ __forceinline__ FoundBlock FindBlock(int n, int block, const Count& count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int first = 0; first < n; first += 32) {
    const int own = first + lane < n ? count(first + lane) : 0;
    int sum = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, sum, distance);
      if (lane >= distance) sum += other;
    }
    const unsigned behind = __ballot_sync(0xffffffffu, sum > block);
    if (behind != 0) {
      const int source = __ffs(static_cast<int>(behind)) - 1;
      return {first + source, block - __shfl_sync(0xffffffffu, sum - own, source),
              __shfl_sync(0xffffffffu, own, source)};
    }
    block -= __shfl_sync(0xffffffffu, sum, 31);
  }
  return {-1, 0, 0};
}

// Copies kRows consecutive tokens of a tile per call and warp. It looks up pages one step before it
// uses them, so that no warp waits for that.
template <typename T, int kDim, int kRows>
class TileCopier {
 public:
  // first_row: the warp's first row of the tile.
  __device__ __forceinline__ TileCopier(const AttentionArgs& args, int first_row)
      : args_(args),
        first_row_(first_row),
        page_rows_(static_cast<uint32_t>(args.layout.PageElements() / args.layout.head_dim)),
        is_paged_(args.layout.page_tokens % kRun == 0 && args.layout.head_dim == kDim) {}

  // Positions outside of [visible_begin, visible_end) will read as zeros.
  __device__ __forceinline__ void StartHead(const int32_t* pages, int kv_head, int visible_begin,
                                            int visible_end) {
    pages_ = pages;
    visible_begin_ = visible_begin;
    visible_end_ = visible_end;
    head_ = static_cast<const T*>(args_.pool) + args_.layout.KeyOffset(0, args_.layer, kv_head, 0);
  }

  __device__ __forceinline__ void FindPages(int tile_begin) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kLookups; ++i) {
      const int position = tile_begin + first_row_ + i * 32 + lane % kRows;
      page_[i] = -1;
      if (position < visible_begin_ || position >= visible_end_) continue;
      const int page = position / args_.layout.page_tokens;
      slot_[i] = position - page * args_.layout.page_tokens;
      page_[i] = pages_[page];
    }
  }

  __device__ __forceinline__ void CopyKeys(uint32_t target) {
    bool is_whole = is_paged_;
#pragma unroll
    for (int i = 0; i < kLookups; ++i) {
      row_[i] = page_[i] < 0 ? kHidden : static_cast<uint32_t>(page_[i]) * page_rows_ + slot_[i];
      is_whole &= page_[i] >= 0;
    }
    is_whole_ = __all_sync(0xffffffffu, is_whole);
    Copy(target, head_);
  }
  // Copies the values for the keys that were copied last.
  __device__ __forceinline__ void CopyValues(uint32_t target) {
    Copy(target, head_ + args_.layout.KeyElements());
  }

 private:
  static constexpr int kLookups = (kRows + 31) / 32;
  static constexpr int kRun = 16;             // rows that lie one after the other where is_paged_
  static constexpr int kChunks = kDim / 8;    // of a row
  static constexpr int kStep = 32 / kChunks;  // rows at a time
  static constexpr uint32_t kHidden = 0xffffffffu;

  __device__ __forceinline__ void Copy(uint32_t target, const T* source) {
    if (is_whole_) {
      CopyRuns(target, source);
    } else {
      CopySome(target, source);
    }
  }

  // All of the tile's rows, by runs.
  __device__ __forceinline__ void CopyRuns(uint32_t target, const T* source) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int chunk = lane % kChunks;
    const int lane_row = lane / kChunks;
#pragma unroll
    for (int run = 0; run < kRows; run += kRun) {
      const uint32_t from = __shfl_sync(0xffffffffu, row_[run / 32], run % 32);
      const T* p = source + int64_t{from + lane_row} * kDim + chunk * 8;
      const uint32_t to = target + (first_row_ + run + lane_row) * kDim * 2;
#pragma unroll
      for (int r = 0; r < kRun; r += kStep) {
        CopyLineOnceAsync(to + r * kDim * 2 + ((chunk ^ ((lane_row + r) & 7)) * 16), p + r * kDim);
      }
    }
  }

  // Row by row, hidden ones and dimensions behind the head's last as zeros.
  __device__ __forceinline__ void CopySome(uint32_t target, const T* source) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int chunk = lane % kChunks;
    const int head_dim = args_.layout.head_dim;
    const bool is_inside = chunk * 8 < head_dim;
#pragma unroll 4
    for (int r = 0; r < kRows; r += kStep) {
      const int row = r + lane / kChunks;
      const uint32_t from =
          __shfl_sync(0xffffffffu, r < 32 ? row_[0] : row_[kLookups - 1], row % 32);
      const bool present = is_inside && from != kHidden;
      const T* p = source + (present ? int64_t{from} * head_dim + chunk * 8 : 0);
      CopyLineOnceAsync(target + ChunkOffset<kDim>(first_row_ + row, chunk), p, present);
    }
  }

  const AttentionArgs& args_;
  const int first_row_;
  const uint32_t page_rows_;  // rows of head_dim elements in a page
  const bool is_paged_;
  bool is_whole_ = false;
  const int32_t* pages_ = nullptr;
  const T* head_ = nullptr;
  int visible_begin_ = 0;
  int visible_end_ = 0;
  // These are of the lane's tokens.
  int32_t page_[kLookups] = {};
  int32_t slot_[kLookups] = {};
  uint32_t row_[kLookups] = {};  // from the pool's start, in rows of head_dim elements
};

// Writes the results of the warp's queries. query(i): the element where query i starts in `out`,
// below zero where there is no such query.
template <int kDim, int kQueryTiles, typename Query>
__device__ __forceinline__ void WriteFloats(float* out, int head_dim, const Query& query,
                                            const SplitState<kDim, kQueryTiles>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int64_t begin = query(8 * n + lane % 4 * 2 + j);
      if (begin < 0) continue;
#pragma unroll
      for (int d = 0; d < kDim / 8; ++d) {
        const int dim = d * 8 + lane / 4;
        if (dim < head_dim) out[begin + dim] = state.sum[d / 2][n][d % 2 * 2 + j];
      }
    }
  }
}

template <typename Out, int kDim, int kQueryTiles, typename Query>
__device__ __forceinline__ void WriteHalves(Out* out, bool pairs, int head_dim, const Query& query,
                                            const SplitState<kDim, kQueryTiles>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
    const int64_t begin = query(8 * n + lane / 4);
#pragma unroll
    for (int d = 0; d < kDim / 8; ++d) {
      const float* values = &state.sum[d / 2][n][d % 2 * 2];
      const uint32_t pair = TransposeMatrix(PackPair<Out>(values[0], values[1]));
      const int dim = d * 8 + lane % 4 * 2;
      if (begin < 0 || dim >= head_dim) continue;
      if (pairs) {
        *reinterpret_cast<uint32_t*>(out + begin + dim) = pair;
      } else {
        out[begin + dim] = Out{static_cast<uint16_t>(pair)};
        out[begin + dim + 1] = Out{static_cast<uint16_t>(pair >> 16)};
      }
    }
  }
}

// Sequences of one launch: their work list is in shared memory.
inline constexpr int kSequencesMax = 2048;

// Calls function with args.out as a pointer to its dtype.
template <typename Function>
__device__ __forceinline__ void DispatchOut(const AttentionArgs& args, const Function& function) {
  switch (args.out_dtype) {
    case DType::kF32:
      return function(static_cast<float*>(args.out));
    case DType::kBF16:
      return function(static_cast<Bfloat16*>(args.out));
    case DType::kF16:
      return function(static_cast<Float16*>(args.out));
  }
}

// Divides by the weights and writes. state: of the head's dimensions from dim_begin on.
template <int kDim, int kQueryTiles, typename Query>
__device__ __forceinline__ void WriteResults(const Params& params, const Query& query,
                                             SplitState<kDim, kQueryTiles>& state,
                                             int dim_begin = 0) {
#pragma unroll
  for (int n = 0; n < kQueryTiles; ++n) {
    const float inverse[2] = {__frcp_rn(state.weight[n][0]), __frcp_rn(state.weight[n][1])};
#pragma unroll
    for (int d = 0; d < kDim / 16; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        state.sum[d][n][i] = Normalised(state.sum[d][n][i], inverse[i % 2]);
      }
    }
  }
  const int num_dims = params.args.layout.head_dim - dim_begin;
  DispatchOut(params.args, [&](auto* out) {
    if constexpr (sizeof(*out) == sizeof(float)) {
      WriteFloats(out + dim_begin, num_dims, query, state);
    } else {
      WriteHalves(out + dim_begin, params.out_pairs, num_dims, query, state);
    }
  });
}

}  // namespace graft::attention
