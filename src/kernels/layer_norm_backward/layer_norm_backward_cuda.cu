// A block per row. What threads read stays in registers between the passes: the mean, the sums, the
// result. Rows too long for that are read again. The order of summation depends on n alone.
#include <algorithm>
#include <type_traits>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/layer_norm_backward/layer_norm_backward.h"

namespace graft {
namespace {

constexpr int kThreads = 512;
constexpr int kWidth = 4;
constexpr int kRunsKept = 2;

struct RowStats {
  float mean;   // of x
  float r;      // 1 / sqrt(variance + epsilon)
  float level;  // the mean of d_out weight
  float along;  // that of d_out weight y, times r
};

// Consecutive columns of a thread. D: what d_out has; void if there is none.
template <typename T, typename D, bool kVectors>
struct LayerNormRun {
  static constexpr bool kGradient = !std::is_void_v<D>;
  float x[kWidth], weight[kWidth], d[kWidth];  // d: d_out

  __device__ __forceinline__ void Load(const LayerNormBackwardArgs& args, int64_t begin) {
    const int64_t at = int64_t{blockIdx.x} * args.n + begin, count = args.n - begin;
    LoadRun<kVectors>(static_cast<const T*>(args.x) + at, count, x);
    LoadRun<kVectors>(args.weight + begin, count, weight);
    if constexpr (kGradient) LoadRun<kVectors>(static_cast<const D*>(args.d_out) + at, count, d);
  }

  __device__ __forceinline__ void AddTo(float* sum) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) *sum = __fadd_rn(*sum, x[i]);
  }

  __device__ __forceinline__ void AddTo(int64_t count, float mean, float* squares, float* gradients,
                                        float* products) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (i >= count) continue;
      const float distance = __fsub_rn(x[i], mean);
      *squares = __fmaf_rn(distance, distance, *squares);
      if constexpr (kGradient) {
        const float of_y = __fmul_rn(d[i], weight[i]);
        *gradients = __fadd_rn(*gradients, of_y);
        *products = __fmaf_rn(distance, of_y, *products);
      }
    }
  }

  __device__ __forceinline__ void StoreGradient(const LayerNormBackwardArgs& args, int64_t begin,
                                                const RowStats& stats) const {
    const int64_t row = args.rows == nullptr ? blockIdx.x : args.rows[blockIdx.x];
    const int64_t at = row * args.n + begin, count = args.n - begin;
    float sums[kWidth];
    LoadRun<kVectors>(args.d_x + at, count, sums);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float level = __fsub_rn(__fmul_rn(d[i], weight[i]), stats.level);
      const float change = __fmaf_rn(-stats.along, __fsub_rn(x[i], stats.mean), level);
      sums[i] = __fmaf_rn(stats.r, change, sums[i]);
    }
    StoreRun<kVectors>(sums, count, args.d_x + at);
    if (args.d_x_copy == nullptr) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[i] = __fmul_rn(sums[i], args.copy_scale);
    StoreRun<kVectors>(sums, count, static_cast<T*>(args.d_x_copy) + at);
  }

  __device__ __forceinline__ void Store(const LayerNormBackwardArgs& args, int64_t begin,
                                        const RowStats& stats) const {
    if constexpr (kGradient) StoreGradient(args, begin, stats);
    if (args.normed == nullptr) return;
    float y[kWidth];
    LoadRun<kVectors>(args.bias + begin, args.n - begin, y);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      y[i] = __fmaf_rn(__fmul_rn(__fsub_rn(x[i], stats.mean), stats.r), weight[i], y[i]);
    }
    StoreRun<kVectors>(y, args.n - begin,
                       static_cast<T*>(args.normed) + int64_t{blockIdx.x} * args.n + begin);
  }
};

template <typename Run>
__global__ void __launch_bounds__(kThreads) LayerNormBackwardKernel(LayerNormBackwardArgs args) {
  __shared__ float scratch[4][kThreads / kWarpThreads];
  const int64_t first = int64_t{threadIdx.x} * kWidth, stride = int64_t{blockDim.x} * kWidth;
  LetNextStart();
  WaitForPrevious();
  Run kept[kRunsKept];
  // function(run, its first column)
  const auto for_runs = [&](const auto& function) {
#pragma unroll
    for (int i = 0; i < kRunsKept; ++i) function(kept[i], first + i * stride);
    for (int64_t begin = first + kRunsKept * stride; begin < args.n; begin += stride) {
      Run more;
      more.Load(args, begin);
      function(more, begin);
    }
  };
#pragma unroll
  for (int i = 0; i < kRunsKept; ++i) kept[i].Load(args, first + i * stride);
  const auto n = static_cast<float>(args.n);
  RowStats stats = {};
  float sum = 0.0f, squares = 0.0f, gradients = 0.0f, products = 0.0f;
  for_runs([&](const Run& run, int64_t) { run.AddTo(&sum); });
  stats.mean = ReduceBlock(sum, 0.0f, scratch[0], Add{}) / n;
  for_runs([&](const Run& run, int64_t begin) {
    run.AddTo(args.n - begin, stats.mean, &squares, &gradients, &products);
  });
  squares = ReduceBlock(squares, 0.0f, scratch[1], Add{});
  stats.r = 1.0f / sqrtf(squares / n + args.epsilon);
  if constexpr (Run::kGradient) {
    stats.level = ReduceBlock(gradients, 0.0f, scratch[2], Add{}) / n;
    stats.along = ReduceBlock(products, 0.0f, scratch[3], Add{}) / n * stats.r * stats.r;
  }
  for_runs([&](const Run& run, int64_t begin) { run.Store(args, begin, stats); });
}

template <typename Run>
void LaunchLayerNormBackward(const LayerNormBackwardArgs& args, Stream& stream) {
  const int64_t wanted = CeilDiv(CeilDiv(args.n, kRunsKept * kWidth), kWarpThreads) * kWarpThreads;
  const auto threads = static_cast<unsigned>(std::min<int64_t>(wanted, kThreads));
  LaunchKernel(LayerNormBackwardKernel<Run>, GridOf(args.num_rows), dim3(threads), 0,
               CudaStreamOf(stream), args);
}

}  // namespace

void LayerNormBackwardCuda(const LayerNormBackwardArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.x) && IsVectorAligned(args.weight) &&
                       IsVectorAligned(args.bias) && IsVectorAligned(args.d_out) &&
                       IsVectorAligned(args.d_x) && IsVectorAligned(args.d_x_copy) &&
                       IsVectorAligned(args.normed) && args.n % kWidth == 0;
  DispatchDType(args.x_dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      if (args.d_out == nullptr) {
        LaunchLayerNormBackward<LayerNormRun<T, void, kVectors>>(args, stream);
      } else if (args.d_dtype == DType::kF32) {
        LaunchLayerNormBackward<LayerNormRun<T, float, kVectors>>(args, stream);
      } else {
        LaunchLayerNormBackward<LayerNormRun<T, T, kVectors>>(args, stream);
      }
    });
  });
}

}  // namespace graft
