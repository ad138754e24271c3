// A block normalizes a long vector. Its threads keep what they read in registers between the two
// passes. A warp normalizes a short one (Qwen3's heads). The order of summation depends on n alone.
#include <algorithm>
#include <type_traits>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/rms_norm/rms_norm.h"

namespace graft {
namespace {

constexpr int kWidth = 4;
// The runs that a thread keeps in registers; the rest of a vector is read twice. A small number
// leaves registers for the blocks of the product that follows: without it, 32 of its 103 blocks
// came 3 us after the others, when the norm had ended.
constexpr int kFewRuns = 2;
constexpr int kManyRuns = 4;
constexpr int kWarpsPerBlock = 4;
constexpr int kThreadsMax = 512;
constexpr int64_t kWarpElementsMax = 256;

template <bool kVectors, bool kAdd, typename T>
__device__ __forceinline__ void StoreOrAdd(float (&values)[kWidth], int64_t count, T* out) {
  if constexpr (kAdd) {
    float before[kWidth];
    LoadRun<kVectors>(out, count, before);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = __fadd_rn(before[i], values[i]);
  }
  StoreRun<kVectors>(values, count, out);
}

// Norms one vector with `num_threads` threads, of which this is number `thread`. They are a warp,
// or a block (which passes `shared`). Where `active` is false the threads join the reductions and
// write nothing. kAdd: the result is added to what `out` holds. C: the copy's type; void: there is
// none.
template <typename T, bool kVectors, bool kBlock, int kRunsKept, bool kAdd, typename C>
__device__ __forceinline__ void NormalizeVector(const RmsNormArgs& args, int64_t vector,
                                                int num_threads, int thread, float* shared) {
  constexpr bool kCopy = !std::is_void_v<C>;
  const bool active = vector < args.num_tokens * args.num_heads;
  const int64_t token = vector / args.num_heads;
  const int64_t offset = vector % args.num_heads * args.n;
  const float* x = args.x + token * args.x_stride + offset;
  T* out = static_cast<T*>(args.out) + token * args.out_stride + offset;
  [[maybe_unused]] C* copy = nullptr;
  if constexpr (kCopy) copy = static_cast<C*>(args.copy) + token * args.copy_stride + offset;
  const int64_t n = active ? args.n : 0;
  const int64_t stride = int64_t{num_threads} * kWidth;
  const int64_t first = int64_t{thread} * kWidth;
  float weights[kRunsKept][kWidth];
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) {
    const int64_t begin = first + run * stride;
    LoadRun<kVectors>(args.weight + begin, n - begin, weights[run]);
  }
  WaitForPrevious();

  float kept[kRunsKept][kWidth];
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) {
    const int64_t begin = first + run * stride;
    LoadRun<kVectors>(x + begin, n - begin, kept[run]);
  }
  if constexpr (kCopy) {  // when all are asked for: no load overtakes a store
#pragma unroll
    for (int run = 0; run < kRunsKept; ++run) {
      const int64_t begin = first + run * stride;
      StoreRun<kVectors>(kept[run], n - begin, copy + begin);
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum = __fmaf_rn(kept[run][i], kept[run][i], sum);
  }
  for (int64_t begin = first + kRunsKept * stride; begin < n; begin += stride) {
    float values[kWidth];
    LoadRun<kVectors>(x + begin, n - begin, values);
    if constexpr (kCopy) StoreRun<kVectors>(values, n - begin, copy + begin);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum = __fmaf_rn(values[i], values[i], sum);
  }
  sum = kBlock ? ReduceBlock(sum, 0.0f, shared, Add{}) : ReduceWarp(sum, Add{});
  const float inverse = 1.0f / sqrtf(sum / static_cast<float>(args.n) + args.epsilon);
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) {
    const int64_t begin = first + run * stride;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) kept[run][i] = kept[run][i] * inverse * weights[run][i];
    StoreOrAdd<kVectors, kAdd>(kept[run], n - begin, out + begin);
  }
  for (int64_t begin = first + kRunsKept * stride; begin < n; begin += stride) {
    float values[kWidth], weight[kWidth];
    LoadRun<kVectors>(x + begin, n - begin, values);
    LoadRun<kVectors>(args.weight + begin, n - begin, weight);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = values[i] * inverse * weight[i];
    StoreOrAdd<kVectors, kAdd>(values, n - begin, out + begin);
  }
}

template <typename T, bool kVectors, int kRuns, bool kAdd, typename C>
__global__ void __launch_bounds__(kThreadsMax) NormalizeByBlock(RmsNormArgs args) {
  __shared__ float sums[kThreadsMax / kWarpThreads];
  LetNextStart();
  NormalizeVector<T, kVectors, true, kRuns, kAdd, C>(args, blockIdx.x, static_cast<int>(blockDim.x),
                                                     static_cast<int>(threadIdx.x), sums);
}

template <typename T, bool kVectors, bool kAdd, typename C>
__global__ void __launch_bounds__(kWarpsPerBlock* kWarpThreads) NormalizeByWarp(RmsNormArgs args) {
  const int64_t vector = int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / kWarpThreads;
  LetNextStart();
  NormalizeVector<T, kVectors, false, kFewRuns, kAdd, C>(
      args, vector, kWarpThreads, static_cast<int>(threadIdx.x % kWarpThreads), nullptr);
}

template <typename T, bool kVectors, bool kAdd, typename C>
void Launch(const RmsNormArgs& args, Stream& stream) {
  const int64_t num_vectors = args.num_tokens * args.num_heads;
  if (args.n <= kWarpElementsMax) {
    LaunchKernel(NormalizeByWarp<T, kVectors, kAdd, C>,
                 static_cast<unsigned>(CeilDiv(num_vectors, kWarpsPerBlock)),
                 kWarpsPerBlock * kWarpThreads, 0, CudaStreamOf(stream), args);
    return;
  }
  const int64_t threads_wanted = CeilDiv(CeilDiv(args.n, 2 * kWidth), kWarpThreads) * kWarpThreads;
  const auto threads = static_cast<unsigned>(std::min<int64_t>(threads_wanted, kThreadsMax));
  const auto kernel = args.n <= int64_t{threads} * kFewRuns * kWidth
                          ? NormalizeByBlock<T, kVectors, kFewRuns, kAdd, C>
                          : NormalizeByBlock<T, kVectors, kManyRuns, kAdd, C>;
  LaunchKernel(kernel, static_cast<unsigned>(num_vectors), threads, 0, CudaStreamOf(stream), args);
}

template <typename T, bool kVectors, bool kAdd>
void LaunchWithCopy(const RmsNormArgs& args, Stream& stream) {
  if (args.copy == nullptr) return Launch<T, kVectors, kAdd, void>(args, stream);
  if constexpr (std::is_same_v<T, float>) {
    DispatchDType(*args.copy_dtype,
                  [&]<typename C>() { Launch<T, kVectors, kAdd, C>(args, stream); });
  } else {
    Launch<T, kVectors, kAdd, T>(args, stream);
  }
}

// Parts of vectors, of which several ranks have the others: kernels of their own, so that norms of
// whole vectors stay as they are. A block has a part.
constexpr int kPartThreads = 128;

// function(the first of a run of this thread's elements of [0, n))
template <typename Function>
__device__ __forceinline__ void ForRunsOfPart(int64_t n, const Function& function) {
  for (int64_t begin = int64_t{threadIdx.x} * kWidth; begin < n; begin += kPartThreads * kWidth) {
    function(begin);
  }
}

template <bool kVectors>
__global__ void __launch_bounds__(kPartThreads) SumSquaresOfPart(SumSquaresArgs args) {
  __shared__ float sums[kPartThreads / kWarpThreads];
  LetNextStart();
  WaitForPrevious();
  const float* const x = args.x + int64_t{blockIdx.x} * args.x_stride;
  float sum = 0.0f;
  ForRunsOfPart(args.n, [&](int64_t begin) {
    float values[kWidth];
    LoadRun<kVectors>(x + begin, args.n - begin, values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum = __fmaf_rn(values[i], values[i], sum);
  });
  sum = ReduceBlock(sum, 0.0f, sums, Add{});
  if (threadIdx.x == 0) args.sums[int64_t{blockIdx.x} * args.sums_stride] = sum;
}

template <bool kVectors>
__global__ void __launch_bounds__(kPartThreads) NormalizePart(RmsNormArgs args) {
  LetNextStart();
  WaitForPrevious();
  const int64_t token = blockIdx.x;
  const float* const x = args.x + token * args.x_stride;
  float* const out = static_cast<float*>(args.out) + token * args.out_stride;
  const float mean = args.squares[token * args.squares_stride] / static_cast<float>(args.n_whole);
  const float inverse = 1.0f / sqrtf(mean + args.epsilon);
  ForRunsOfPart(args.n, [&](int64_t begin) {
    float values[kWidth], weight[kWidth];
    LoadRun<kVectors>(x + begin, args.n - begin, values);
    LoadRun<kVectors>(args.weight + begin, args.n - begin, weight);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = values[i] * inverse * weight[i];
    StoreRun<kVectors>(values, args.n - begin, out + begin);
  });
}

}  // namespace

void SumSquaresCuda(const SumSquaresArgs& args, Stream& stream) {
  const bool vectors =
      IsVectorAligned(args.x) && IsVectorAligned(args.x_stride * 4) && args.n % kWidth == 0;
  DispatchVectors(vectors, [&]<bool kVectors>() {
    LaunchKernel(SumSquaresOfPart<kVectors>, static_cast<unsigned>(args.num_tokens), kPartThreads,
                 0, CudaStreamOf(stream), args);
  });
}

void RmsNormCuda(const RmsNormArgs& args, Stream& stream) {
  if (args.num_tokens == 0) return;
  const bool vectors = IsVectorAligned(args.x) && IsVectorAligned(args.out) &&
                       IsVectorAligned(args.weight) && IsVectorAligned(args.copy) &&
                       IsVectorAligned(args.x_stride * 4) && args.out_stride % kWidth == 0 &&
                       args.copy_stride % kWidth == 0 && args.n % kWidth == 0;
  DispatchVectors(vectors, [&]<bool kVectors>() {
    if (args.squares != nullptr) {
      return LaunchKernel(NormalizePart<kVectors>, static_cast<unsigned>(args.num_tokens),
                          kPartThreads, 0, CudaStreamOf(stream), args);
    }
    if (args.accumulate) return LaunchWithCopy<float, kVectors, true>(args, stream);
    DispatchDType(args.out_dtype,
                  [&]<typename T>() { LaunchWithCopy<T, kVectors, false>(args, stream); });
  });
}

}  // namespace graft
