// y += scale * h B^T in bf16 and fp16. A block takes some columns of a slice. It asks for its part
// of B before h is there.
#include "kernels/lora/lora_expand.cuh"

namespace graft::lora {
namespace {

// Adds the product to y.
struct YStore {
  static __device__ __forceinline__ float* Of(const LoraArgs& lora) { return lora.y; }
  // Adds up to eight columns of one row to y.
  static __device__ __forceinline__ void Put(const KernelArgs& args, float* y, int columns,
                                             const float (&delta)[8]) {
    if (args.vectors && args.add_in_l2) {
      AddInL2(y, {delta[0], delta[1], delta[2], delta[3]});
      AddInL2(y + 4, {delta[4], delta[5], delta[6], delta[7]});
    } else if (args.vectors) {
      float4* vectors = reinterpret_cast<float4*>(y);
      float4 low = vectors[0];
      float4 high = vectors[1];
      low.x += delta[0], low.y += delta[1], low.z += delta[2], low.w += delta[3];
      high.x += delta[4], high.y += delta[5], high.z += delta[6], high.w += delta[7];
      vectors[0] = low;
      vectors[1] = high;
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (j < columns) y[j] += delta[j];
      }
    }
  }
};

// kBlocks: blocks per multiprocessor, on Hopper.
template <bool kIsBf16, int kBlocks, int kColumns>
__global__ void __launch_bounds__(kThreads, BlocksBound(kBlocks, 2))
    ExpandKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  LetNextStart();
  char* const barriers = shared + args.depth * kTileRanks * RowBytesOfB(kColumns);
  Ring ring(shared, barriers, args.depth, RowBytesOfB(kColumns));
  const auto slices = static_cast<unsigned>(args.lora.num_slices);
  const unsigned row_split = blockIdx.z / slices;
  const int slice = static_cast<int>(blockIdx.z - row_split * slices);
  const int column = static_cast<int>(blockIdx.x) * kColumns;
  const int column_end = min(column + kColumns, static_cast<int>(args.lora.slice_n[slice]));
  const BlockRows rows(args.lora, static_cast<int>(row_split), kTileRows);
  const bool has_work = rows.begin < rows.end && column < column_end;
  if (!has_work && !IsFirstBlock()) return;
  if (threadIdx.x == 0) ring.Init();
  __syncthreads();
  if (threadIdx.x >= kMultiplyThreads) {
    if (!has_work) return;
    if (kColumns == kNarrow && args.vectors) {  // the multiplying warps have no registers to spare
      PrefetchRows(YStore::Of(args.lora) + rows.begin * args.lora.y_stride +
                       args.lora.slice_begin[slice] + column,
                   args.lora.y_stride, rows.end - rows.begin, column_end - column);
    }
    const LoraMatrix matrix = MatrixOf(args.lora, rows.adapter_slot, slice);
    const RowTable table(barriers + Ring::kBarrierBytes, matrix.b_rows, matrix.rank);
    for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
      FeedExpand(args, table, matrix.rank, column, column_end - column, ring);
    }
    return;
  }
  LoraMatrix matrix;
  if (has_work) matrix = MatrixOf(args.lora, rows.adapter_slot, slice);
  WaitForPrevious();  // also without work: the next kernel relies on it
  if (matrix.rank == 0) return;
  Expander<kIsBf16, YStore, kColumns> expander(
      args, ring,
      reinterpret_cast<float*>(barriers + Ring::kBarrierBytes +
                               RowTable::Bytes(args.lora.h_stride)));
  for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
    if (row > rows.begin) SyncThreads<kMultiplyThreads, 1>();
    expander.SumH(row, rows.end, slice, matrix);
    SyncThreads<kMultiplyThreads, 1>();
    expander.Pass(row, rows.end, slice, matrix.rank, column, column_end);
  }
}

template <int kBlocks, int kColumns>
void LaunchWith(const KernelArgs& args, const Launch& launch) {
  if (args.lora.dtype == DType::kBF16) {
    return LaunchOf<ExpandKernel<true, kBlocks, kColumns>>(args, launch);
  }
  LaunchOf<ExpandKernel<false, kBlocks, kColumns>>(args, launch);
}

}  // namespace

int ExpandSharedBytes(int depth, int64_t rank_max, int columns) {
  return depth * kTileRanks * RowBytesOfB(columns) + Ring::kBarrierBytes +
         RowTable::Bytes(rank_max) + kTileRows * (HStride(rank_max) + 2) * 4;
}

// With few blocks per multiprocessor each block has more registers. 3 or 4 narrow blocks use no
// local memory, 4 wide ones use a little, and 5 use more, which still pays where the bytes of y
// take the time.
void LaunchExpand(const KernelArgs& args, const Launch& launch, int columns, bool is_prefill) {
  if (columns == kNarrow) {
    if (int64_t{NumBlocks(launch)} <= 3 * NumMultiprocessors())
      return LaunchWith<3, kNarrow>(args, launch);
    return LaunchWith<4, kNarrow>(args, launch);
  }
  if (is_prefill) return LaunchWith<5, kChunk>(args, launch);
  LaunchWith<4, kChunk>(args, launch);
}

}  // namespace graft::lora
