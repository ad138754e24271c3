// Queries of prompt attention on their way to shared memory: fp32 rows of a model's projection,
// rounded to T and laid out as the matrix instruction reads them.
#pragma once

#include "kernels/attention/attention_prompt.cuh"
#include "kernels/common/cuda_vector.cuh"

#if defined(GRAFT_HOPPER)

namespace graft::attention {

// Four dimensions of a query. `run` numbers them over all queries of an item.
template <typename Shape>
struct QueryRun {
  static constexpr int kPerQuery = Shape::kAtoms * 16;

  const float* source;
  bool present;  // else zeros: behind the last query, or behind the head's last dimension

  __device__ __forceinline__ QueryRun(const Params& params, const PromptItem& item, int run) {
    const AttentionArgs& args = params.args;
    const int query = item.first_query + run / kPerQuery;
    const int dim = run % kPerQuery * 4;
    const int row = params.RowOf(query);
    const int head = item.kv_head * params.group + query - row * params.group;
    present = query < item.num_queries && dim < args.layout.head_dim;
    source = args.q;
    if (present) {
      source += (item.row_begin + row) * args.q_stride + head * args.layout.head_dim + dim;
    }
  }
  static __device__ __forceinline__ void Store(int run, const float (&values)[4],
                                               unsigned char* target) {
    using T = typename Shape::T;
    const int dim = run % kPerQuery * 4;
    *reinterpret_cast<uint2*>(target + Shape::QueryOffset(run / kPerQuery, dim / 8) + dim % 8 * 2) =
        make_uint2(PackPair<T>(values[0], values[1]), PackPair<T>(values[2], values[3]));
  }
};

// Stores queries [begin, end) of the block's 128 by way of registers, kRuns of a lane at a time.
// One warp calls it.
template <typename Shape, bool kVectors, int kRuns>
__device__ __forceinline__ void StoreSomeQueries(const Params& params, const PromptItem& item,
                                                 int begin, int end, unsigned char* target) {
  using Run = QueryRun<Shape>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int first = begin * Run::kPerQuery; first < end * Run::kPerQuery; first += kRuns * 32) {
    float values[kRuns][4];
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const Run run(params, item, first + i * 32 + lane);
      LoadRun<kVectors>(run.source, run.present ? 4 : 0, values[i]);
    }
#pragma unroll
    for (int i = 0; i < kRuns; ++i) Run::Store(first + i * 32 + lane, values[i], target);
  }
}

template <typename Shape, int kRuns>
__device__ __forceinline__ void StorePromptQueries(const Params& params, const PromptItem& item,
                                                   int begin, int end, unsigned char* target) {
  if (params.q_vectors) {
    StoreSomeQueries<Shape, true, kRuns>(params, item, begin, end, target);
  } else {
    StoreSomeQueries<Shape, false, kRuns>(params, item, begin, end, target);
  }
  FenceForAsync();
}

// The same by way of shared memory, where more are on their way at once. A lane rounds only what it
// has asked for itself, so it waits for no other lane. `wait` returns when `target` is free.
template <typename Shape, typename Wait>
__device__ __forceinline__ void StreamPromptQueries(const Params& params, const PromptItem& item,
                                                    int begin, int end, unsigned char* staging,
                                                    unsigned char* target, const Wait& wait) {
  using Run = QueryRun<Shape>;
  if (!params.q_vectors) {
    wait();
    StoreSomeQueries<Shape, false, 1>(params, item, begin, end, target);
    return FenceForAsync();
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = begin * Run::kPerQuery + lane;
  const int num_pieces = (end - begin) * Run::kPerQuery / (kPieceRuns * 32);
  const auto slot = [&](int piece, int i) {
    return staging + ((piece % kPieces * kPieceRuns + i) * 32 + lane) * 16;
  };
  for (int piece = 0; piece < num_pieces + kPieces - 1; ++piece) {
    if (piece < num_pieces) {
#pragma unroll 2
      for (int i = 0; i < kPieceRuns; ++i) {
        const Run run(params, item, first + (piece * kPieceRuns + i) * 32);
        CopyLineOnceAsync(SharedAddress(slot(piece, i)), run.source, run.present);
      }
    }
    CommitCopies();
    const int come = piece - (kPieces - 1);
    if (come < 0) continue;
    if (come == 0) wait();
    WaitForCopies<kPieces - 1>();
#pragma unroll 4
    for (int i = 0; i < kPieceRuns; ++i) {
      const auto values = *reinterpret_cast<const float4*>(slot(come, i));
      Run::Store(first + (come * kPieceRuns + i) * 32, {values.x, values.y, values.z, values.w},
                 target);
    }
  }
  FenceForAsync();
}

}  // namespace graft::attention

#endif  // GRAFT_HOPPER
