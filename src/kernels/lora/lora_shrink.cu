// h = x A^T in bf16 and fp16. A block multiplies one of the kLoraSplits parts of k.
#include "kernels/lora/lora_shrink.cuh"
#include "tensor/cuda_check.h"

namespace graft::lora {
namespace {

__device__ __forceinline__ void AwaitX(const LoraArgs& lora) {
  if (lora.follows_product) return SeeWhatPreviousSaw();
  WaitForPrevious();
  if (lora.precedes_product) LetNextStart();
}

// A kernel that waits for this one relies on this one having waited for all earlier kernels. If
// AwaitX did not wait, one block does so before it ends.
__device__ __forceinline__ void AwaitProduct(const LoraArgs& lora) {
  if (lora.follows_product && blockIdx.x + blockIdx.y + blockIdx.z == 0) WaitForPrevious();
}

// kBlocks: blocks per multiprocessor, on Hopper.
template <bool kIsBf16, int kBlocks>
__global__ void __launch_bounds__(kThreads, BlocksBound(kBlocks, 3))
    ShrinkKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  if (!args.lora.precedes_product) LetNextStart();
  char* const barriers = shared + args.depth * kTileRanks * kRowBytesOfA;
  Ring ring(shared, barriers, args.depth, kRowBytesOfA);
  const auto slices = static_cast<unsigned>(args.lora.num_slices);
  const unsigned row_split = blockIdx.z / slices;
  const int slice = static_cast<int>(blockIdx.z - row_split * slices);
  const BlockRows rows(args.lora, static_cast<int>(row_split), kTileRows);
  if (rows.begin >= rows.end && !IsFirstBlock()) return;
  if (threadIdx.x == 0) ring.Init();
  __syncthreads();
  const auto part_idx = static_cast<int>(blockIdx.x);
  const KPart part(args.lora.k, part_idx);
  if (threadIdx.x >= kMultiplyThreads) {
    if (rows.begin >= rows.end) return AwaitProduct(args.lora);
    if (args.vectors) {
      PrefetchRows(static_cast<const uint16_t*>(args.lora.x) + rows.begin * args.lora.x_stride +
                       part.BeginOf(0),
                   args.lora.x_stride, rows.end - rows.begin, part.ElementsOf(0));
    }
    const LoraMatrix matrix = MatrixOf(args.lora, rows.adapter_slot, slice);
    const RowTable table(barriers + Ring::kBarrierBytes, matrix.a_rows, matrix.rank);
    for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
      FeedShrink(args, table, matrix.rank, part, ring);
    }
    return AwaitProduct(args.lora);
  }
  const bool has_work = rows.begin < rows.end;
  const int rank = has_work ? MatrixOf(args.lora, rows.adapter_slot, slice).rank : 0;
  AwaitX(args.lora);  // also without work, see AwaitProduct
  if (rank == 0) return;
  Shrinker<kIsBf16> shrinker(args, ring,
                             reinterpret_cast<float*>(barriers + Ring::kBarrierBytes +
                                                      RowTable::Bytes(args.lora.h_stride)));
  for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
    shrinker.Pass(row, rows.end, part_idx, slice, rank);
  }
}

// ---- Many rows: each warp takes some rows and loads their x itself; all warps share A. ----

// kTiles: tiles of rows for one warp, two where shared memory has room for their x beside two
// stages of A, else one.
template <int kTiles>
struct WideRows {
  static constexpr int kOfWarp = kTiles * kTileRows;
  static constexpr int kOfBlock = kWarps * kOfWarp;
};

template <int kTiles>
__device__ __forceinline__ void FeedWide(const KernelArgs& args, const BlockRows& rows,
                                         char* table_bytes, Ring& ring) {
  const LoraArgs& lora = args.lora;
  const KPart part(lora.k, static_cast<int>(blockIdx.x));
  for (int row = rows.begin; row < rows.end; row += args.row_splits * WideRows<kTiles>::kOfBlock) {
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
                    part.ElementsOf(chunk), args.vectors, kCacheNormal);
        }
      }
    }
  }
}

template <bool kIsBf16, int kTiles>
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
    const int warp_begin = rows.begin + static_cast<int>(threadIdx.x) / 32 * kRowsOfWarp;
    int parity = 0;
    for (int pass = 0; rows.begin + pass < rows.end; pass += args.row_splits * kRowsOfBlock) {
#pragma unroll 1
      for (int chunk = 0; chunk < part_.chunks(); ++chunk, parity ^= 1) {
        FetchX(warp_begin + pass, chunk);
        AwaitBarrier(x_barrier_, parity);
#pragma unroll 1
        for (int slice = 0; slice < args.lora.num_slices; ++slice) {
          MultiplySlice(warp_begin + pass, chunk, slice);
        }
        __syncwarp();
      }
    }
  }

 private:
  static constexpr int kRowsOfWarp = WideRows<kTiles>::kOfWarp;
  static constexpr int kRowsOfBlock = WideRows<kTiles>::kOfBlock;

  __device__ __forceinline__ void FetchX(int row, int chunk) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto* x = static_cast<const uint16_t*>(args_.lora.x) +
                    (row + lane) * args_.lora.x_stride + part_.BeginOf(chunk);
    FetchRows(x_, kRowBytesOfA, x, min(kRowsOfWarp, max(0, rows_.end - row)),
              part_.ElementsOf(chunk), args_.vectors, x_barrier_, kCacheNormal);
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
      float total[kTiles][4] = {};
      if (chunk > 0) MoveH<true>(row, slice, begin, rank, total);
      const uint32_t stage = ring_.Wait();
#pragma unroll 2
      for (int group = 0; group < groups; ++group) {
        const AGroup a = LoadA(stage, group, elements);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
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

  // kLoad: a lane's sums are read from h, where it left them after the chunk before; else they are
  // written to h.
  template <bool kLoad>
  __device__ __forceinline__ void MoveH(int row, int slice, int rank_begin, int rank,
                                        float (&total)[kTiles][4]) const {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
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
  const uint32_t x_, x_barrier_;  // this warp's own
  const int g_, t_;               // the lane is 4g + t
};

template <bool kIsBf16, int kTiles>
__global__ void __launch_bounds__(kThreads, 2)
    WideShrinkKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  if (!args.lora.precedes_product) LetNextStart();
  char* const x = shared + args.depth * kTileRanks * kRowBytesOfA;
  char* const barriers = x + WideRows<kTiles>::kOfBlock * kRowBytesOfA;
  char* const x_barriers = barriers + Ring::kBarrierBytes + RowTable::Bytes(args.lora.h_stride);
  Ring ring(shared, barriers, args.depth, kRowBytesOfA);
  const BlockRows rows(args.lora, static_cast<int>(blockIdx.z), WideRows<kTiles>::kOfBlock);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (threadIdx.x == 0) {
    ring.Init();
    for (int i = 0; i < kWarps; ++i) BarrierInit(SharedAddress(x_barriers) + i * 8, 32);
  }
  __syncthreads();
  if (warp >= kWarps) {
    if (rows.begin < rows.end) FeedWide<kTiles>(args, rows, barriers + Ring::kBarrierBytes, ring);
    return;
  }
  AwaitX(args.lora);  // also without rows: the next kernel relies on it
  if (rows.begin >= rows.end) return;
  WideShrinker<kIsBf16, kTiles>(args, rows, ring,
                                SharedAddress(x) + warp * WideRows<kTiles>::kOfWarp * kRowBytesOfA,
                                SharedAddress(x_barriers) + warp * 8);
}

template <int kBlocks>
void LaunchWith(const KernelArgs& args, const Launch& launch) {
  if (args.lora.dtype == DType::kBF16) return LaunchOf<ShrinkKernel<true, kBlocks>>(args, launch);
  LaunchOf<ShrinkKernel<false, kBlocks>>(args, launch);
}

template <int kTiles>
void LaunchWideShrinkOf(const KernelArgs& args, const Launch& launch) {
  if (args.lora.dtype == DType::kBF16)
    return LaunchOf<WideShrinkKernel<true, kTiles>>(args, launch);
  LaunchOf<WideShrinkKernel<false, kTiles>>(args, launch);
}

}  // namespace

int ShrinkSharedBytes(int depth, int64_t rank_max) {
  return depth * kTileRanks * kRowBytesOfA + Ring::kBarrierBytes + RowTable::Bytes(rank_max) +
         2 * kPartialFloats * 4;
}

int WideShrinkSharedBytes(int depth, int64_t rank_max, int rows) {
  return (depth * kTileRanks + rows) * kRowBytesOfA + Ring::kBarrierBytes +
         RowTable::Bytes(rank_max) + kWarps * 8;
}

// With six blocks per multiprocessor some of x lies in local memory, so four are used where they
// hold the whole launch.
void LaunchShrink(const KernelArgs& args, const Launch& launch) {
  if (int64_t{NumBlocks(launch)} <= 4 * NumMultiprocessors()) return LaunchWith<4>(args, launch);
  LaunchWith<6>(args, launch);
}

int RowsOfWideShrink(int64_t rank_max, int shared_bytes_max) {
  constexpr int kRows = WideRows<2>::kOfBlock;
  return WideShrinkSharedBytes(2, rank_max, kRows) <= shared_bytes_max ? kRows : kRows / 2;
}

void LaunchWideShrink(const KernelArgs& args, const Launch& launch, int rows) {
  if (rows == WideRows<2>::kOfBlock) return LaunchWideShrinkOf<2>(args, launch);
  CHECK_EQ(rows, WideRows<1>::kOfBlock);
  LaunchWideShrinkOf<1>(args, launch);
}

}  // namespace graft::lora
