// A thread has a column, and asks for several rows ahead of the additions, which are a chain.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/row_sum/row_sum.h"

namespace graft {
namespace {

constexpr int kThreads = 64;
constexpr int kRowsAhead = 16;

__global__ void __launch_bounds__(kThreads) RowSumKernel(RowSumArgs args) {
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  LetNextStart();
  WaitForPrevious();
  if (column >= args.n) return;
  double sum = args.sums[column];
  for (int64_t begin = 0; begin < args.num_rows; begin += kRowsAhead) {
    float values[kRowsAhead];
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      const int64_t row = begin + i;
      values[i] = row < args.num_rows ? args.x[row * args.n + column] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      if (begin + i < args.num_rows) sum += double{values[i]};
    }
  }
  args.sums[column] = sum;
}

}  // namespace

void RowSumCuda(const RowSumArgs& args, Stream& stream) {
  const dim3 grid(static_cast<unsigned>(CeilDiv(args.n, kThreads)));
  LaunchKernel(RowSumKernel, grid, kThreads, 0, CudaStreamOf(stream), args);
}

}  // namespace graft
