// A block per token and item; a thread has four columns at a time, and goes over the item's places
// in their order.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/virtual_gradient/virtual_gradient.h"

namespace graft {
namespace {

constexpr int kThreads = 128;
constexpr int kWidth = 4;

template <bool kVectors>
__global__ void __launch_bounds__(kThreads) VirtualGradientKernel(VirtualGradientArgs args) {
  LetNextStart();
  WaitForPrevious();
  const VirtualGradientItem item = args.items[blockIdx.y];
  const int64_t token = blockIdx.x;
  if (token >= item.num_tokens) return;
  float* const gradient = item.gradient + token * args.gradient_stride + args.gradient_offset;
  for (int64_t begin = threadIdx.x * kWidth; begin < args.n; begin += kThreads * kWidth) {
    float sums[kWidth];
    LoadRun<kVectors>(gradient + begin, args.n - begin, sums);
    for (int32_t i = item.place_begin; i < item.place_end; ++i) {
      float x[kWidth];
      LoadRun<kVectors>(args.x + (args.places[i] + token) * args.n + begin, args.n - begin, x);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sums[j] = __fmaf_rn(x[j], args.scale, sums[j]);
    }
    StoreRun<kVectors>(sums, args.n - begin, gradient + begin);
  }
}

}  // namespace

// Gradients are whole allocations, so that their borders follow from the strides.
void VirtualGradientCuda(const VirtualGradientArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.x) && args.n % kWidth == 0 &&
                       args.gradient_stride % kWidth == 0 && args.gradient_offset % kWidth == 0;
  const dim3 grid = GridOf(args.num_tokens_max, args.num_items);
  DispatchVectors(vectors, [&]<bool kVectors>() {
    LaunchKernel(VirtualGradientKernel<kVectors>, grid, kThreads, 0, CudaStreamOf(stream), args);
  });
}

}  // namespace graft
