// h = x A^T in bf16 and fp16. A block multiplies one of kLoraSplits parts of k. Whatever the
// kernel, an element of h's part is the sum, in order, of its groups of k, each multiplied by one
// chain of tensor core operations that begins at zero: so the bits of a row do not depend on its
// batch.
#include "kernels/lora/lora_block.cuh"
#include "tensor/cuda_check.h"

namespace graft::lora {
namespace {

constexpr int kGroupsOfWarp = kChunkGroups / kWarps;
// Floats between two rows of a group's sums: no two lanes in one bank.
constexpr int kPartialStride = kTileRanks + 4;
constexpr int kPartialFloats = kChunkGroups * kTileRows * kPartialStride;

// A lane's 16 + 16 bytes of a row of x for one group.
struct XGroup {
  uint4 v[2];
};

__device__ __forceinline__ XGroup LoadX(const KernelArgs& args, int row, int row_end, int k) {
  XGroup x = {};
  const LoraArgs& lora = args.lora;
  const auto* p = static_cast<const uint16_t*>(lora.x) + row * lora.x_stride + k;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int left = static_cast<int>(lora.k) - k - i * 32;
    if (row >= row_end || left <= 0) continue;
    x.v[i] =
        args.vectors ? *reinterpret_cast<const uint4*>(p + i * 32) : LoadElements(p + i * 32, left);
  }
  return x;
}

// A lane's share of a group of A: ranks g and g + 8 of the tile, the k of XGroup; zeros past k.
struct AGroup {
  uint4 low[2], high[2];
};

__device__ __forceinline__ AGroup LoadA(uint32_t stage, int group, int elements) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int k = group * kGroup + static_cast<int>(threadIdx.x) % 4 * 8;
  const uint32_t from = stage + g * kRowBytesOfA + k * 2;
  AGroup a;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    a.low[i] = LoadStage(from + i * 64, k + i * 32 < elements);
    a.high[i] = LoadStage(from + 8 * kRowBytesOfA + i * 64, k + i * 32 < elements);
  }
  return a;
}

template <bool kIsBf16>
__device__ __forceinline__ void MultiplyGroup(float (&sum)[4], const AGroup& a, const XGroup& x) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = 0.0f;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4& low = a.low[i];
    const uint4& high = a.high[i];
    MultiplyAdd<kIsBf16>(sum, low.x, high.x, low.y, high.y, x.v[i].x, x.v[i].y);
    MultiplyAdd<kIsBf16>(sum, low.z, high.z, low.w, high.w, x.v[i].z, x.v[i].w);
  }
}

// ---- Few rows: the warps divide k. ----

__device__ __forceinline__ void FeedShrink(const KernelArgs& args, const BlockRows& rows, int slice,
                                           char* table_bytes, Ring& ring) {
  const LoraMatrix matrix = MatrixOf(args.lora, rows.adapter_slot, slice);
  const KPart part(args.lora.k, static_cast<int>(blockIdx.x));
  const int tiles = RankTiles(matrix.rank);
  const RowTable table(table_bytes, matrix.a_rows, matrix.rank);
  for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      const uint16_t* from = table.Row(tile);
#pragma unroll 1
      for (int chunk = 0; chunk < part.chunks(); ++chunk) {
        ring.Feed(from + part.BeginOf(chunk), matrix.rank - tile * kTileRanks,
                  part.ElementsOf(chunk), args.vectors);
      }
    }
  }
}

template <bool kIsBf16>
class Shrinker {
 public:
  __device__ __forceinline__ Shrinker(const KernelArgs& args, const BlockRows& rows, int slice,
                                      int rank, const Ring& ring, float* partials)
      : args_(args),
        slice_(slice),
        row_end_(rows.end),
        part_(args.lora.k, static_cast<int>(blockIdx.x)),
        ring_(ring),
        partials_(partials),
        warp_(static_cast<int>(threadIdx.x) / 32),
        g_(static_cast<int>(threadIdx.x) % 32 / 4),
        t_(static_cast<int>(threadIdx.x) % 4) {
    for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
      Pass(row, rank);
    }
  }

 private:
  __device__ __forceinline__ void LoadChunkOfX(int row, int chunk,
                                               XGroup (&x)[kGroupsOfWarp]) const {
#pragma unroll
    for (int i = 0; i < kGroupsOfWarp; ++i) {
      const int group = warp_ + i * kWarps;
      const int row_end = group < part_.GroupsOf(chunk) ? row_end_ : row;
      x[i] = LoadX(args_, row + g_, row_end, part_.BeginOf(chunk) + group * kGroup + t_ * 8);
    }
  }

  __device__ __forceinline__ void Pass(int row, int rank) {
    // Thread i sums rank i % 16 of row i / 16.
    const int my_row = static_cast<int>(threadIdx.x) / kTileRanks;
    const int my_rank = static_cast<int>(threadIdx.x) % kTileRanks;
    const int my_ranks = row + my_row < row_end_ ? rank - my_rank : 0;
    float* const h = HOf(args_.lora, static_cast<int>(blockIdx.x), slice_, row + my_row) + my_rank;
    const int chunks = part_.chunks();
    XGroup x[kGroupsOfWarp];
    LoadChunkOfX(row, 0, x);
#pragma unroll 1
    for (int tile_begin = 0; tile_begin < rank; tile_begin += kTileRanks) {
      float total = 0.0f;
#pragma unroll 1
      for (int chunk = 0; chunk < chunks; ++chunk) {
        if (chunks > 1 && (tile_begin > 0 || chunk > 0)) LoadChunkOfX(row, chunk, x);
        float* const partials = partials_ + (stage_idx_++ & 1) * kPartialFloats;
        MultiplyStage(part_.ElementsOf(chunk), row, x, partials);
        SyncThreads<kMultiplyThreads>();
        const float* from = partials + my_row * kPartialStride + my_rank;
        const int groups = part_.GroupsOf(chunk);
        float sums[kChunkGroups];
#pragma unroll
        for (int i = 0; i < kChunkGroups; ++i) sums[i] = from[i * kTileRows * kPartialStride];
#pragma unroll
        for (int i = 0; i < kChunkGroups; ++i) total = i < groups ? total + sums[i] : total;
      }
      if (tile_begin < my_ranks) h[tile_begin] = total;
    }
  }

  __device__ __forceinline__ void MultiplyStage(int elements, int row,
                                                const XGroup (&x)[kGroupsOfWarp], float* partials) {
    const uint32_t stage = ring_.Wait();
    float sum[kGroupsOfWarp][4];
#pragma unroll
    for (int i = 0; i < kGroupsOfWarp; ++i) {
      MultiplyGroup<kIsBf16>(sum[i], LoadA(stage, warp_ + i * kWarps, elements), x[i]);
    }
    ring_.Release();
    if (row + 2 * t_ >= row_end_) return;
    float* to = partials + (warp_ * kTileRows + 2 * t_) * kPartialStride + g_;
#pragma unroll
    for (int i = 0; i < kGroupsOfWarp; ++i) {
      to[0] = sum[i][0];
      to[kPartialStride] = sum[i][1];
      to[8] = sum[i][2];
      to[kPartialStride + 8] = sum[i][3];
      to += kWarps * kTileRows * kPartialStride;
    }
  }

  const KernelArgs& args_;
  const int slice_, row_end_;
  const KPart part_;
  Ring ring_;
  float* const partials_;
  const int warp_, g_, t_;  // the lane is 4g + t
  int stage_idx_ = 0;
};

template <bool kIsBf16>
__global__ void __launch_bounds__(kThreads, 6)
    ShrinkKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  LetNextStart();
  char* const barriers = shared + args.depth * kTileRanks * kRowBytesOfA;
  Ring ring(shared, barriers, args.depth, kRowBytesOfA);
  const auto slices = static_cast<unsigned>(args.lora.num_slices);
  const unsigned row_split = blockIdx.z / slices;
  const int slice = static_cast<int>(blockIdx.z - row_split * slices);
  const BlockRows rows(args.lora, static_cast<int>(row_split), kTileRows);
  if (threadIdx.x == 0) ring.Init();
  __syncthreads();
  if (threadIdx.x >= kMultiplyThreads) {
    if (rows.begin < rows.end) FeedShrink(args, rows, slice, barriers + Ring::kBarrierBytes, ring);
    return;
  }
  const bool has_work = rows.begin < rows.end;
  const int rank = has_work ? MatrixOf(args.lora, rows.adapter_slot, slice).rank : 0;
  WaitForPrevious();  // also without work: who waits for this kernel waits for those before it
  if (rank == 0) return;
  Shrinker<kIsBf16>(args, rows, slice, rank, ring,
                    reinterpret_cast<float*>(barriers + Ring::kBarrierBytes +
                                             RowTable::Bytes(args.lora.h_stride)));
}

// ---- Many rows: the warps divide them, each with x of its own, and share A of all slices. ----

constexpr int kWideTiles = 2;  // of rows, of a warp
constexpr int kWideRowsOfWarp = kWideTiles * kTileRows;
constexpr int kWideRows = kWarps * kWideRowsOfWarp;

__device__ __forceinline__ void FeedWide(const KernelArgs& args, const BlockRows& rows,
                                         char* table_bytes, Ring& ring) {
  const LoraArgs& lora = args.lora;
  const KPart part(lora.k, static_cast<int>(blockIdx.x));
  for (int row = rows.begin; row < rows.end; row += args.row_splits * kWideRows) {
#pragma unroll 1
    for (int chunk = 0; chunk < part.chunks(); ++chunk) {
#pragma unroll 1
      for (int slice = 0; slice < lora.num_slices; ++slice) {
        const LoraMatrix& matrix = MatrixOf(lora, rows.adapter_slot, slice);
        const int rank = matrix.rank;
        const RowTable table(table_bytes, matrix.a_rows, rank);
#pragma unroll 1
        for (int tile = 0; tile < RankTiles(rank); ++tile) {
          ring.Feed(table.Row(tile) + part.BeginOf(chunk), rank - tile * kTileRanks,
                    part.ElementsOf(chunk), args.vectors);
        }
      }
    }
  }
}

template <bool kIsBf16>
class WideShrinker {
 public:
  __device__ __forceinline__ WideShrinker(const KernelArgs& args, const BlockRows& rows,
                                          const Ring& ring, uint32_t x, uint32_t x_barrier)
      : args_(args),
        rows_(rows),
        part_(args.lora.k, static_cast<int>(blockIdx.x)),
        ring_(ring),
        x_(x),
        x_barrier_(x_barrier),
        g_(static_cast<int>(threadIdx.x) % 32 / 4),
        t_(static_cast<int>(threadIdx.x) % 4) {
    const int warp_begin = rows.begin + static_cast<int>(threadIdx.x) / 32 * kWideRowsOfWarp;
    int parity = 0;
    for (int pass = 0; rows.begin + pass < rows.end; pass += args.row_splits * kWideRows) {
#pragma unroll 1
      for (int chunk = 0; chunk < part_.chunks(); ++chunk, parity ^= 1) {
        FetchX(warp_begin + pass, chunk);
        WaitAtBarrier(x_barrier_, parity);
#pragma unroll 1
        for (int slice = 0; slice < args.lora.num_slices; ++slice) {
          MultiplySlice(warp_begin + pass, chunk, slice);
        }
        __syncwarp();
      }
    }
  }

 private:
  __device__ __forceinline__ void FetchX(int row, int chunk) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto* x = static_cast<const uint16_t*>(args_.lora.x) +
                    (row + lane) * args_.lora.x_stride + part_.BeginOf(chunk);
    FetchRows(x_, kRowBytesOfA, x, min(kWideRowsOfWarp, max(0, rows_.end - row)),
              part_.ElementsOf(chunk), args_.vectors, x_barrier_);
  }

  __device__ __forceinline__ XGroup LoadStagedX(int row_tile, int group, int elements) const {
    const int k = group * kGroup + t_ * 8;
    const uint32_t from = x_ + (row_tile * kTileRows + g_) * kRowBytesOfA + k * 2;
    return {{LoadStage(from, k < elements), LoadStage(from + 64, k + 32 < elements)}};
  }

  __device__ __forceinline__ void MultiplySlice(int row, int chunk, int slice) {
    const int rank = MatrixOf(args_.lora, rows_.adapter_slot, slice).rank;
    const int groups = part_.GroupsOf(chunk);
    const int elements = part_.ElementsOf(chunk);
#pragma unroll 1
    for (int begin = 0; begin < rank; begin += kTileRanks) {
      float total[kWideTiles][4] = {};
      if (chunk > 0) MoveH<true>(row, slice, begin, rank, total);
      const uint32_t stage = ring_.Wait();
#pragma unroll 2
      for (int group = 0; group < groups; ++group) {
        const AGroup a = LoadA(stage, group, elements);
#pragma unroll
        for (int tile = 0; tile < kWideTiles; ++tile) {
          float sum[4];
          MultiplyGroup<kIsBf16>(sum, a, LoadStagedX(tile, group, elements));
#pragma unroll
          for (int i = 0; i < 4; ++i) total[tile][i] += sum[i];
        }
      }
      ring_.Release();
      MoveH<false>(row, slice, begin, rank, total);
    }
  }

  // A lane's sums from h, where it left them after the chunk before, or to h.
  template <bool kLoad>
  __device__ __forceinline__ void MoveH(int row, int slice, int rank_begin, int rank,
                                        float (&total)[kWideTiles][4]) const {
#pragma unroll
    for (int tile = 0; tile < kWideTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int my_row = row + tile * kTileRows + 2 * t_ + i % 2;
        const int my_rank = rank_begin + g_ + i / 2 * 8;
        if (my_row >= rows_.end || my_rank >= rank) continue;
        float* h = HOf(args_.lora, static_cast<int>(blockIdx.x), slice, my_row) + my_rank;
        if constexpr (kLoad) {
          total[tile][i] = *h;
        } else {
          *h = total[tile][i];
        }
      }
    }
  }

  const KernelArgs& args_;
  const BlockRows& rows_;
  const KPart part_;
  Ring ring_;
  const uint32_t x_, x_barrier_;  // the warp's own
  const int g_, t_;               // the lane is 4g + t
};

template <bool kIsBf16>
__global__ void __launch_bounds__(kThreads, 2)
    WideShrinkKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  LetNextStart();
  char* const x = shared + args.depth * kTileRanks * kRowBytesOfA;
  char* const barriers = x + kWideRows * kRowBytesOfA;
  char* const x_barriers = barriers + Ring::kBarrierBytes + RowTable::Bytes(args.lora.h_stride);
  Ring ring(shared, barriers, args.depth, kRowBytesOfA);
  const BlockRows rows(args.lora, static_cast<int>(blockIdx.z), kWideRows);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    ring.Init();
    for (int i = 0; i < kWarps; ++i) InitBarrier(AddressInShared(x_barriers) + i * 8, 1);
  }
  __syncthreads();
  if (warp >= kWarps) {
    if (rows.begin < rows.end) FeedWide(args, rows, barriers + Ring::kBarrierBytes, ring);
    return;
  }
  WaitForPrevious();  // also with no rows: who waits for this kernel waits for those before it
  if (rows.begin >= rows.end) return;
  WideShrinker<kIsBf16>(args, rows, ring,
                        AddressInShared(x) + warp * kWideRowsOfWarp * kRowBytesOfA,
                        AddressInShared(x_barriers) + warp * 8);
}

}  // namespace

int ShrinkSharedBytes(int depth, int64_t rank_max) {
  return depth * kTileRanks * kRowBytesOfA + Ring::kBarrierBytes + RowTable::Bytes(rank_max) +
         2 * kPartialFloats * 4;
}

int WideShrinkSharedBytes(int depth, int64_t rank_max) {
  return (depth * kTileRanks + kWideRows) * kRowBytesOfA + Ring::kBarrierBytes +
         RowTable::Bytes(rank_max) + kWarps * 8;
}

void LaunchShrink(const KernelArgs& args, const Launch& launch) {
  if (args.lora.dtype == DType::kBF16) return LaunchOf<ShrinkKernel<true>>(args, launch);
  LaunchOf<ShrinkKernel<false>>(args, launch);
}

void LaunchWideShrink(const KernelArgs& args, const Launch& launch) {
  if (args.lora.dtype == DType::kBF16) return LaunchOf<WideShrinkKernel<true>>(args, launch);
  LaunchOf<WideShrinkKernel<false>>(args, launch);
}

}  // namespace graft::lora
