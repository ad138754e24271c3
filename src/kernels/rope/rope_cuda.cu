// One thread per four rotating dimensions of a head's first half, together with their partners in
// the second half; interleaved, per eight dimensions.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/rope/rope.h"
#include "kernels/rope/rotate_pair.cuh"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;

template <bool kVectors, bool kInterleaved>
__global__ void __launch_bounds__(kThreads) RopeKernel(RopeArgs args) {
  const int64_t token = blockIdx.x;
  const int in_token = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  const int half = args.rotary_dim / 2;
  const int runs_per_head = (half + kWidth - 1) / kWidth;
  const int begin = in_token % runs_per_head * kWidth;
  float* x = args.x + token * args.x_stride + int64_t{in_token / runs_per_head} * args.head_dim +
             (kInterleaved ? 2 * begin : begin);
  float* y = x + (kInterleaved ? kWidth : half);
  LetNextStart();
  WaitForPrevious();
  if (in_token >= args.num_heads * runs_per_head) return;
  const int64_t angle = int64_t{args.positions[token]} * half + begin;
  const int64_t count = half - begin;
  const int64_t low_count = kInterleaved ? 2 * count : count;
  const int64_t high_count = kInterleaved ? 2 * count - kWidth : count;
  float low[kWidth], high[kWidth], cos[kWidth], sin[kWidth];
  LoadRun<kVectors>(x, low_count, low);
  LoadRun<kVectors>(y, high_count, high);
  LoadRun<kVectors>(args.cos + angle, count, cos);
  LoadRun<kVectors>(args.sin + angle, count, sin);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    RotatePairOfRun<kInterleaved>(i, cos[i], args.back ? -sin[i] : sin[i], low, high);
  }
  StoreRun<kVectors>(low, low_count, x);
  StoreRun<kVectors>(high, high_count, y);
}

}  // namespace

void RopeCuda(const RopeArgs& args, Stream& stream) {
  if (args.num_tokens == 0) return;
  const int half = args.rotary_dim / 2;
  const bool vectors = IsVectorAligned(args.x) && IsVectorAligned(args.x_stride * 4) &&
                       IsVectorAligned(args.cos) && IsVectorAligned(args.sin) &&
                       half % kWidth == 0 && args.head_dim % kWidth == 0;
  const int64_t runs_per_token = args.num_heads * CeilDiv(half, kWidth);
  const dim3 grid = GridOf(args.num_tokens, CeilDiv(runs_per_token, kThreads));
  DispatchVectors(vectors, [&]<bool kVectors>() {
    const auto kernel = args.interleaved ? RopeKernel<kVectors, true> : RopeKernel<kVectors, false>;
    LaunchKernel(kernel, grid, kThreads, 0, CudaStreamOf(stream), args);
  });
}

}  // namespace graft
