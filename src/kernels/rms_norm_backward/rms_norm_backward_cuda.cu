// A block per vector, or a warp where a row has several short ones (heads). What threads read stays
// in registers between the two passes, all of it asked for at once; vectors too long for that are
// read twice. The order of the sums depends on n and on which of both it is alone.
#include <type_traits>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/rms_norm_backward/rms_norm_backward.h"

namespace graft {
namespace {

constexpr int kThreads = 512;
constexpr int kWarpsPerBlock = 4;
constexpr int kWidth = 4;
constexpr int kRunsKept = 2;
constexpr int64_t kWarpElementsMax = int64_t{kRunsKept} * kWarpThreads * kWidth;

// Where a vector begins in each array, in elements.
struct NormBackwardPlace {
  int64_t x, d_out, d_x, normed;

  __device__ __forceinline__ NormBackwardPlace(const RmsNormBackwardArgs& args, int64_t row,
                                               int64_t head) {
    const int64_t to = args.rows == nullptr ? row : args.rows[row];
    const int64_t column = head * args.n;
    x = row * args.x_stride + column;
    d_out = row * args.d_out_stride + column;
    d_x = to * args.d_x_stride + column;
    normed = (row * args.num_heads + head) * args.n;
  }
};

// Consecutive columns of a thread. D: what d_out has; void if there is none. kAdds: to d_x.
template <typename T, typename D, bool kAdds, bool kVectors>
struct NormRun {
  static constexpr bool kGradient = !std::is_void_v<D>;
  float x[kWidth], weight[kWidth], d_out[kWidth], d_x[kWidth];

  __device__ __forceinline__ void Load(const RmsNormBackwardArgs& args,
                                       const NormBackwardPlace& place, int64_t begin) {
    const int64_t count = args.n - begin;
    LoadRun<kVectors>(static_cast<const T*>(args.x) + place.x + begin, count, x);
    LoadRun<kVectors>(args.weight + begin, count, weight);
    if constexpr (kGradient) {
      LoadRun<kVectors>(static_cast<const D*>(args.d_out) + place.d_out + begin, count, d_out);
      if constexpr (kAdds) LoadRun<kVectors>(args.d_x + place.d_x + begin, count, d_x);
    }
  }

  __device__ __forceinline__ void AddTo(float* squares, float* products) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      *squares = __fmaf_rn(x[i], x[i], *squares);
      if constexpr (kGradient) *products = __fmaf_rn(x[i], d_out[i] * weight[i], *products);
    }
  }

  __device__ __forceinline__ void Store(const RmsNormBackwardArgs& args,
                                        const NormBackwardPlace& place, int64_t begin, float r,
                                        float along) {
    const int64_t count = args.n - begin;
    if constexpr (kGradient) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float change = __fmaf_rn(along, x[i], d_out[i] * weight[i] * r);
        d_x[i] = kAdds ? __fadd_rn(d_x[i], change) : change;
      }
      const int64_t offset = place.d_x + begin;
      if constexpr (kAdds) StoreRun<kVectors>(d_x, count, args.d_x + offset);
      if (args.d_x_copy != nullptr) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) d_x[i] = __fmul_rn(d_x[i], args.copy_scale);
        StoreRun<kVectors>(d_x, count, static_cast<T*>(args.d_x_copy) + offset);
      }
    }
    if (args.normed == nullptr) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] = x[i] * r * weight[i];
    StoreRun<kVectors>(x, count, static_cast<T*>(args.normed) + place.normed + begin);
  }
};

// One vector with kNumThreads threads: a block, or a warp. `scratch` is the block's.
template <typename Run, int kNumThreads>
__device__ __forceinline__ void BackwardVector(const RmsNormBackwardArgs& args,
                                               const NormBackwardPlace& place, int thread,
                                               float (*scratch)[kThreads / kWarpThreads]) {
  constexpr int64_t kStride = int64_t{kNumThreads} * kWidth;
  const int64_t first = int64_t{thread} * kWidth;
  Run kept[kRunsKept];
  float squares = 0.0f, products = 0.0f;
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) kept[run].Load(args, place, first + run * kStride);
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) kept[run].AddTo(&squares, &products);
  for (int64_t begin = first + kRunsKept * kStride; begin < args.n; begin += kStride) {
    Run more;
    more.Load(args, place, begin);
    more.AddTo(&squares, &products);
  }
  if constexpr (kNumThreads == kWarpThreads) {
    squares = ReduceWarp(squares, Add{});
    if constexpr (Run::kGradient) products = ReduceWarp(products, Add{});
  } else {
    squares = ReduceBlock(squares, 0.0f, scratch[0], Add{});
    if constexpr (Run::kGradient) products = ReduceBlock(products, 0.0f, scratch[1], Add{});
  }
  const auto n = static_cast<float>(args.n);
  const float r = 1.0f / sqrtf(squares / n + args.epsilon);
  const float along = -r * r * r * products / n;
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) {
    kept[run].Store(args, place, first + run * kStride, r, along);
  }
  for (int64_t begin = first + kRunsKept * kStride; begin < args.n; begin += kStride) {
    Run more;
    more.Load(args, place, begin);
    more.Store(args, place, begin, r, along);
  }
}

template <typename Run>
__global__ void __launch_bounds__(kThreads, 2) NormBackwardByBlock(RmsNormBackwardArgs args) {
  __shared__ float scratch[2][kThreads / kWarpThreads];
  LetNextStart();
  WaitForPrevious();
  const NormBackwardPlace place(args, blockIdx.x, blockIdx.y);
  BackwardVector<Run, kThreads>(args, place, static_cast<int>(threadIdx.x), scratch);
}

template <typename Run>
__global__ void __launch_bounds__(kWarpsPerBlock* kWarpThreads)
    NormBackwardByWarp(RmsNormBackwardArgs args) {
  const int64_t head = int64_t{blockIdx.y} * kWarpsPerBlock + threadIdx.x / kWarpThreads;
  LetNextStart();
  WaitForPrevious();
  if (head >= args.num_heads) return;  // a whole warp, and there is no barrier
  const NormBackwardPlace place(args, blockIdx.x, head);
  BackwardVector<Run, kWarpThreads>(args, place, static_cast<int>(threadIdx.x % kWarpThreads),
                                    nullptr);
}

// A row's one vector that is added to the residual stream always has a block, however short it is.
template <typename Run>
void LaunchNormBackward(const RmsNormBackwardArgs& args, Stream& stream) {
  const bool are_heads = args.num_heads > 1 || (args.d_out != nullptr && args.d_x == nullptr);
  if (are_heads && args.n <= kWarpElementsMax) {
    const dim3 grid = GridOf(args.num_rows, CeilDiv(args.num_heads, kWarpsPerBlock));
    return LaunchKernel(NormBackwardByWarp<Run>, grid, dim3(kWarpsPerBlock * kWarpThreads), 0,
                        CudaStreamOf(stream), args);
  }
  LaunchKernel(NormBackwardByBlock<Run>, GridOf(args.num_rows, args.num_heads), dim3(kThreads), 0,
               CudaStreamOf(stream), args);
}

template <typename T, typename D, bool kVectors>
void LaunchWithGradient(const RmsNormBackwardArgs& args, Stream& stream) {
  if (args.d_x == nullptr) {
    return LaunchNormBackward<NormRun<T, D, false, kVectors>>(args, stream);
  }
  LaunchNormBackward<NormRun<T, D, true, kVectors>>(args, stream);
}

bool ReadsVectors(const RmsNormBackwardArgs& args) {
  return IsVectorAligned(args.x) && IsVectorAligned(args.weight) && IsVectorAligned(args.d_out) &&
         IsVectorAligned(args.d_x) && IsVectorAligned(args.d_x_copy) &&
         IsVectorAligned(args.normed) && args.x_stride % kWidth == 0 &&
         args.d_out_stride % kWidth == 0 && args.d_x_stride % kWidth == 0 && args.n % kWidth == 0;
}

}  // namespace

void RmsNormBackwardCuda(const RmsNormBackwardArgs& args, Stream& stream) {
  DispatchDType(args.x_dtype, [&]<typename T>() {
    DispatchVectors(ReadsVectors(args), [&]<bool kVectors>() {
      if (args.d_out == nullptr) {
        LaunchNormBackward<NormRun<T, void, false, kVectors>>(args, stream);
      } else if (args.d_dtype == DType::kF32) {
        LaunchWithGradient<T, float, kVectors>(args, stream);
      } else {
        LaunchWithGradient<T, T, kVectors>(args, stream);
      }
    });
  });
}

}  // namespace graft
