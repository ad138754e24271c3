// LoRA in fp32, for checks against references. It is plain, but forms each sum in the same order
// whatever the batch.
#include <algorithm>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/lora/lora_launch.cuh"

namespace graft::lora {
namespace {

constexpr int kPlainThreads = 256;

struct Item {
  LoraSegment segment;
  LoraMatrix matrix;  // of rank 0 where there is nothing to do
};

__device__ Item FindItem(const LoraArgs& args) {
  Item item{args.segments[blockIdx.y], {}};
  if (item.segment.row_begin < item.segment.row_end) {
    item.matrix = args.matrices[item.segment.adapter_slot * args.matrices_stride + blockIdx.z];
  }
  return item;
}

__device__ float* FloatHOf(const LoraArgs& args, int64_t split, int row) {
  return args.h + ((split * args.num_slices + blockIdx.z) * args.num_rows + row) * args.h_stride;
}

// A warp per row and rank. blockIdx.x is the part of k.
__global__ void FloatShrinkKernel(const __grid_constant__ LoraArgs args) {
  WaitForPrevious();
  LetNextStart();
  const Item item = FindItem(args);
  const int rank = item.matrix.rank;
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int rows = item.segment.row_end - item.segment.row_begin;
  const int64_t begin = args.k * blockIdx.x / kLoraSplits;
  const int64_t end = args.k * (blockIdx.x + 1) / kLoraSplits;
  for (int i = static_cast<int>(threadIdx.x) / kWarpThreads; i < rows * rank;
       i += kPlainThreads / kWarpThreads) {
    const int row = item.segment.row_begin + i / rank;
    const float* a = static_cast<const float*>(item.matrix.a_rows[i % rank]);
    const float* x = static_cast<const float*>(args.x) + row * args.x_stride;
    float sum = 0.0f;
    for (int64_t k = begin + lane; k < end; k += kWarpThreads) sum = fmaf(x[k], a[k], sum);
    sum = ReduceWarp(sum, Add());
    if (lane == 0) FloatHOf(args, blockIdx.x, row)[i % rank] = sum;
  }
}

// A thread per column of the slice.
__global__ void FloatExpandKernel(const __grid_constant__ LoraArgs args) {
  WaitForPrevious();
  LetNextStart();
  const Item item = FindItem(args);
  if (item.matrix.rank == 0) return;
  const int64_t column = int64_t{blockIdx.x} * kPlainThreads + threadIdx.x;
  __shared__ float h[kLoraRankMax];
  for (int row = item.segment.row_begin; row < item.segment.row_end; ++row) {
    for (int j = static_cast<int>(threadIdx.x); j < item.matrix.rank; j += kPlainThreads) {
      float sum = 0.0f;
      for (int split = 0; split < kLoraSplits; ++split) sum += FloatHOf(args, split, row)[j];
      h[j] = sum;
    }
    __syncthreads();
    if (column < args.slice_n[blockIdx.z]) {
      float sum = 0.0f;
      for (int j = 0; j < item.matrix.rank; ++j) {
        sum = fmaf(h[j], static_cast<const float*>(item.matrix.b_rows[j])[column], sum);
      }
      float* y = args.y + row * args.y_stride + args.slice_begin[blockIdx.z] + column;
      *y = fmaf(item.matrix.scale * args.scale, sum, *y);
    }
    __syncthreads();
  }
}

}  // namespace

void LaunchLoraF32(Part part, const LoraArgs& args, Stream& stream) {
  if (args.num_segments == 0 || args.num_rows == 0) return;
  const auto segments = static_cast<unsigned>(args.num_segments);
  const auto slices = static_cast<unsigned>(args.num_slices);
  if (part == Part::kShrink) {
    LaunchKernel(FloatShrinkKernel, dim3(kLoraSplits, segments, slices), dim3(kPlainThreads), 0,
                 CudaStreamOf(stream), args);
    return;
  }
  const int64_t n = *std::max_element(args.slice_n, args.slice_n + args.num_slices);
  const auto blocks = static_cast<unsigned>((n + kPlainThreads - 1) / kPlainThreads);
  LaunchKernel(FloatExpandKernel, dim3(blocks, segments, slices), dim3(kPlainThreads), 0,
               CudaStreamOf(stream), args);
}

}  // namespace graft::lora
