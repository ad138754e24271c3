// A thread has a column of several rows of the result, and goes over what is summed up in its
// order. Plain: a step's memories are few rows beside those of its model.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/linear_map/linear_map.h"

namespace graft {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 8;  // of the result, a block

__global__ void __launch_bounds__(kThreads) LinearMapKernel(LinearMapArgs args) {
  LetNextStart();
  WaitForPrevious();
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  const int64_t first = int64_t{blockIdx.x} * kRows;
  if (column >= args.n) return;
  const float bias = args.map[args.k * args.n + column];
  float sums[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) sums[i] = bias;
  for (int64_t j = 0; j < args.k; ++j) {
    const float map = args.map[j * args.n + column];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (first + i < args.num_rows) {
        sums[i] = __fmaf_rn(args.x[(first + i) * args.k + j], map, sums[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (first + i < args.num_rows) args.y[(first + i) * args.n + column] = sums[i];
  }
}

__global__ void __launch_bounds__(kThreads) LinearMapGradientKernel(LinearMapGradientArgs args) {
  LetNextStart();
  WaitForPrevious();
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  const int64_t first = int64_t{blockIdx.x} * kRows;  // of the map's
  if (column >= args.n) return;
  float sums[kRows] = {};
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (first + i <= args.k) sums[i] = args.d_map[(first + i) * args.n + column];
  }
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const float d_y = args.d_y[row * args.n + column];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float x = first + i < args.k ? args.x[row * args.k + first + i] : 1.0f;
      sums[i] = __fmaf_rn(x, d_y, sums[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    if (first + i <= args.k) args.d_map[(first + i) * args.n + column] = sums[i];
  }
}

dim3 BlocksOf(int64_t num_rows, int64_t n) {
  return GridOf((num_rows + kRows - 1) / kRows, (n + kThreads - 1) / kThreads);
}

}  // namespace

void LinearMapCuda(const LinearMapArgs& args, Stream& stream) {
  LaunchKernel(LinearMapKernel, BlocksOf(args.num_rows, args.n), kThreads, 0, CudaStreamOf(stream),
               args);
}

void LinearMapGradientCuda(const LinearMapGradientArgs& args, Stream& stream) {
  LaunchKernel(LinearMapGradientKernel, BlocksOf(args.k + 1, args.n), kThreads, 0,
               CudaStreamOf(stream), args);
}

}  // namespace graft
