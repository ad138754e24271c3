// A block normalizes a row. Its threads keep what they read in registers between the passes: the
// mean, the distances from it, the result. The order of summation depends on n alone.
#include <algorithm>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/layer_norm/layer_norm.h"

namespace graft {
namespace {

constexpr int kLayerNormWidth = 4;
// The runs that a thread keeps in registers; the rest of a row is read again in each pass. Few
// leave registers for the blocks of the product that follows.
constexpr int kLayerNormFewRuns = 2;
constexpr int kLayerNormManyRuns = 4;
constexpr int kLayerNormThreadsMax = 512;

using LayerNormRun = float[kLayerNormWidth];

// A thread's share of one row.
template <bool kVectors, int kRuns>
struct LayerNormShare {
  const int64_t n;
  const int64_t first = int64_t{threadIdx.x} * kLayerNormWidth;
  const int64_t stride = int64_t{blockDim.x} * kLayerNormWidth;

  template <typename T>
  __device__ __forceinline__ void Load(const T* from, LayerNormRun (&kept)[kRuns]) const {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const int64_t begin = first + run * stride;
      LoadRun<kVectors>(from + begin, n - begin, kept[run]);
    }
  }

  // function(values of a run, column of the first, the run's number among those kept, else -1)
  template <typename Function>
  __device__ __forceinline__ void ForRuns(const float* x, LayerNormRun (&kept)[kRuns],
                                          const Function& function) const {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) function(kept[run], first + run * stride, run);
    for (int64_t begin = first + kRuns * stride; begin < n; begin += stride) {
      LayerNormRun values;
      LoadRun<kVectors>(x + begin, n - begin, values);
      function(values, begin, -1);
    }
  }
};

__device__ __forceinline__ void NormLayerRun(LayerNormRun& values, float mean, float inverse,
                                             const LayerNormRun& weight, const LayerNormRun& bias) {
#pragma unroll
  for (int i = 0; i < kLayerNormWidth; ++i) {
    const float distance = __fsub_rn(values[i], mean);
    values[i] = __fmaf_rn(__fmul_rn(distance, inverse), weight[i], bias[i]);
  }
}

template <typename T, bool kVectors, int kRuns, bool kCopy>
__global__ void __launch_bounds__(kLayerNormThreadsMax) LayerNormKernel(LayerNormArgs args) {
  __shared__ float sums[kLayerNormThreadsMax / kWarpThreads];
  __shared__ float squares[kLayerNormThreadsMax / kWarpThreads];
  const LayerNormShare<kVectors, kRuns> share = {args.n};
  LetNextStart();
  LayerNormRun weights[kRuns], biases[kRuns], kept[kRuns];
  share.Load(args.weight, weights);
  share.Load(args.bias, biases);
  WaitForPrevious();

  const int64_t offset = int64_t{blockIdx.x} * args.n;
  const float* const x = args.x + offset;
  const auto count = static_cast<float>(args.n);
  share.Load(x, kept);
  float sum = 0.0f;
  share.ForRuns(x, kept, [&](LayerNormRun& values, int64_t begin, int) {
#pragma unroll
    for (int i = 0; i < kLayerNormWidth; ++i) {
      if (begin + i < args.n) sum = __fadd_rn(sum, values[i]);
    }
    if constexpr (kCopy) {
      StoreRun<kVectors>(values, args.n - begin, static_cast<T*>(args.copy) + offset + begin);
    }
  });
  const float mean = ReduceBlock(sum, 0.0f, sums, Add{}) / count;
  float square = 0.0f;
  share.ForRuns(x, kept, [&](LayerNormRun& values, int64_t begin, int) {
#pragma unroll
    for (int i = 0; i < kLayerNormWidth; ++i) {
      const float distance = __fsub_rn(values[i], mean);
      if (begin + i < args.n) square = __fmaf_rn(distance, distance, square);
    }
  });
  const float variance = ReduceBlock(square, 0.0f, squares, Add{}) / count;
  const float inverse = 1.0f / sqrtf(variance + args.epsilon);
  share.ForRuns(x, kept, [&](LayerNormRun& values, int64_t begin, int run) {
    if (run >= 0) {
      NormLayerRun(values, mean, inverse, weights[run], biases[run]);
    } else {
      LayerNormRun weight, bias;
      LoadRun<kVectors>(args.weight + begin, args.n - begin, weight);
      LoadRun<kVectors>(args.bias + begin, args.n - begin, bias);
      NormLayerRun(values, mean, inverse, weight, bias);
    }
    StoreRun<kVectors>(values, args.n - begin, static_cast<T*>(args.out) + offset + begin);
  });
}

template <typename T, bool kVectors, int kRuns>
auto LayerNormKernelOf(const LayerNormArgs& args) {
  return args.copy == nullptr ? LayerNormKernel<T, kVectors, kRuns, false>
                              : LayerNormKernel<T, kVectors, kRuns, true>;
}

}  // namespace

void LayerNormCuda(const LayerNormArgs& args, Stream& stream) {
  if (args.num_rows == 0) return;
  const bool vectors = IsVectorAligned(args.x) && IsVectorAligned(args.out) &&
                       IsVectorAligned(args.weight) && IsVectorAligned(args.bias) &&
                       IsVectorAligned(args.copy) && args.n % kLayerNormWidth == 0;
  const int64_t wanted = CeilDiv(CeilDiv(args.n, 2 * kLayerNormWidth), kWarpThreads) * kWarpThreads;
  const auto threads = static_cast<unsigned>(std::min<int64_t>(wanted, kLayerNormThreadsMax));
  const bool few = args.n <= int64_t{threads} * kLayerNormFewRuns * kLayerNormWidth;
  DispatchDType(args.out_dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      const auto kernel = few ? LayerNormKernelOf<T, kVectors, kLayerNormFewRuns>(args)
                              : LayerNormKernelOf<T, kVectors, kLayerNormManyRuns>(args);
      LaunchKernel(kernel, static_cast<unsigned>(args.num_rows), threads, 0, CudaStreamOf(stream),
                   args);
    });
  });
}

}  // namespace graft
