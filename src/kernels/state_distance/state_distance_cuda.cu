// A block per target, which reads both rows once.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/state_distance/state_distance.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;

template <typename Args>
__device__ __forceinline__ int64_t RowOf(const Args& args, int64_t target) {
  return args.rows == nullptr ? target : args.rows[target];
}

template <bool kVectors>
__global__ void __launch_bounds__(kThreads) DistanceKernel(StateDistanceArgs args) {
  __shared__ double scratch[kThreads / kWarpThreads];
  LetNextStart();
  WaitForPrevious();
  const int64_t target = blockIdx.x;
  const double share = args.shares[target];
  if (share == 0.0) return;
  const float* const states = args.states + RowOf(args, target) * args.n;
  const float* const taught = args.taught + target * args.n;
  double sum = 0.0;
  for (int64_t begin = int64_t{threadIdx.x} * kWidth; begin < args.n;
       begin += int64_t{kThreads} * kWidth) {
    float state[kWidth], wanted[kWidth];
    LoadRun<kVectors>(states + begin, args.n - begin, state);
    LoadRun<kVectors>(taught + begin, args.n - begin, wanted);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float difference = state[i] - wanted[i];
      sum += static_cast<double>(fabsf(difference));
      if (args.signs == nullptr || begin + i >= args.n) continue;
      const int sign = static_cast<int>(difference > 0.0f) - static_cast<int>(difference < 0.0f);
      args.signs[target * args.n + begin + i] = static_cast<int8_t>(sign);
    }
  }
  sum = ReduceBlock(sum, 0.0, scratch, Add{});
  if (threadIdx.x == 0) args.losses[target] += sum * share;
}

template <typename T, bool kVectors>
__global__ void __launch_bounds__(kThreads) GradientKernel(StateGradientArgs args) {
  LetNextStart();
  WaitForPrevious();
  const int64_t target = blockIdx.x;
  const auto share = static_cast<float>(args.shares[target]);
  if (share == 0.0f) return;
  const int64_t row = RowOf(args, target) * args.n;
  const int8_t* const signs = args.signs + target * args.n;
  for (int64_t begin = int64_t{threadIdx.x} * kWidth; begin < args.n;
       begin += int64_t{kThreads} * kWidth) {
    const int64_t count = args.n - begin;
    float d[kWidth];
    LoadRun<kVectors>(args.d_states + row + begin, count, d);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (i < count) d[i] += share * static_cast<float>(signs[begin + i]);
    }
    StoreRun<kVectors>(d, count, args.d_states + row + begin);
    if (args.copy != nullptr)
      StoreRun<kVectors>(d, count, static_cast<T*>(args.copy) + row + begin);
  }
}

}  // namespace

void StateDistanceCuda(const StateDistanceArgs& args, Stream& stream) {
  const bool vectors =
      IsVectorAligned(args.states) && IsVectorAligned(args.taught) && args.n % kWidth == 0;
  DispatchVectors(vectors, [&]<bool kVectors>() {
    LaunchKernel(DistanceKernel<kVectors>, GridOf(args.num_targets), dim3(kThreads), 0,
                 CudaStreamOf(stream), args);
  });
}

void StateGradientCuda(const StateGradientArgs& args, Stream& stream) {
  const bool vectors =
      IsVectorAligned(args.d_states) && IsVectorAligned(args.copy) && args.n % kWidth == 0;
  DispatchDType(args.copy_dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      LaunchKernel(GradientKernel<T, kVectors>, GridOf(args.num_targets), dim3(kThreads), 0,
                   CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
