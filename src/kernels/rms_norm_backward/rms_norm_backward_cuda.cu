// A block per row. What its threads read stays in registers between the two passes, all of it asked
// for at once; rows too long for that are read twice. The order of the sums depends on n alone.
#include <type_traits>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/rms_norm_backward/rms_norm_backward.h"

namespace graft {
namespace {

constexpr int kThreads = 512;
constexpr int kWidth = 4;
constexpr int kRunsKept = 2;
constexpr int64_t kStride = int64_t{kThreads} * kWidth;

// Consecutive columns of a thread. D: what d_out has; void if there is none.
template <typename T, typename D, bool kVectors>
struct NormRun {
  static constexpr bool kGradient = !std::is_void_v<D>;
  float x[kWidth], weight[kWidth], d_out[kWidth], d_x[kWidth];

  // Row `from` of x, d_out and normed belongs to row `to` of d_x.
  __device__ __forceinline__ void Load(const RmsNormBackwardArgs& args, int64_t from, int64_t to,
                                       int64_t begin) {
    const int64_t count = args.n - begin;
    LoadRun<kVectors>(static_cast<const T*>(args.x) + from * args.n + begin, count, x);
    LoadRun<kVectors>(args.weight + begin, count, weight);
    if constexpr (kGradient) {
      LoadRun<kVectors>(static_cast<const D*>(args.d_out) + from * args.n + begin, count, d_out);
      LoadRun<kVectors>(args.d_x + to * args.n + begin, count, d_x);
    }
  }

  __device__ __forceinline__ void AddTo(float* squares, float* products) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      *squares = __fmaf_rn(x[i], x[i], *squares);
      if constexpr (kGradient) *products = __fmaf_rn(x[i], d_out[i] * weight[i], *products);
    }
  }

  __device__ __forceinline__ void Store(const RmsNormBackwardArgs& args, int64_t from, int64_t to,
                                        int64_t begin, float r, float along) {
    const int64_t count = args.n - begin;
    if constexpr (kGradient) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        d_x[i] += __fmaf_rn(along, x[i], d_out[i] * weight[i] * r);
      }
      const int64_t offset = to * args.n + begin;
      StoreRun<kVectors>(d_x, count, args.d_x + offset);
      if (args.d_x_copy != nullptr) {
        StoreRun<kVectors>(d_x, count, static_cast<T*>(args.d_x_copy) + offset);
      }
    }
    if (args.normed == nullptr) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] = x[i] * r * weight[i];
    StoreRun<kVectors>(x, count, static_cast<T*>(args.normed) + from * args.n + begin);
  }
};

template <typename T, typename D, bool kVectors>
__global__ void __launch_bounds__(kThreads, 2) RmsNormBackwardKernel(RmsNormBackwardArgs args) {
  using Run = NormRun<T, D, kVectors>;
  __shared__ float scratch[2][kThreads / kWarpThreads];
  const int64_t from = blockIdx.x;
  const int64_t first = int64_t{threadIdx.x} * kWidth;
  LetNextStart();
  WaitForPrevious();
  const int64_t to = args.rows == nullptr ? from : args.rows[from];
  Run kept[kRunsKept];
  float squares = 0.0f, products = 0.0f;
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) kept[run].Load(args, from, to, first + run * kStride);
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) kept[run].AddTo(&squares, &products);
  for (int64_t begin = first + kRunsKept * kStride; begin < args.n; begin += kStride) {
    Run more;
    more.Load(args, from, to, begin);
    more.AddTo(&squares, &products);
  }
  squares = ReduceBlock(squares, 0.0f, scratch[0], Add{});
  if constexpr (Run::kGradient) products = ReduceBlock(products, 0.0f, scratch[1], Add{});
  const auto n = static_cast<float>(args.n);
  const float r = 1.0f / sqrtf(squares / n + args.epsilon);
  const float along = -r * r * r * products / n;
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) {
    kept[run].Store(args, from, to, first + run * kStride, r, along);
  }
  for (int64_t begin = first + kRunsKept * kStride; begin < args.n; begin += kStride) {
    Run more;
    more.Load(args, from, to, begin);
    more.Store(args, from, to, begin, r, along);
  }
}

}  // namespace

void RmsNormBackwardCuda(const RmsNormBackwardArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.x) && IsVectorAligned(args.weight) &&
                       IsVectorAligned(args.d_out) && IsVectorAligned(args.d_x) &&
                       IsVectorAligned(args.d_x_copy) && IsVectorAligned(args.normed) &&
                       args.n % kWidth == 0;
  DispatchDType(args.x_dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      const auto kernel = args.d_out == nullptr         ? RmsNormBackwardKernel<T, void, kVectors>
                          : args.d_dtype == DType::kF32 ? RmsNormBackwardKernel<T, float, kVectors>
                                                        : RmsNormBackwardKernel<T, T, kVectors>;
      LaunchKernel(kernel, GridOf(args.num_rows), dim3(kThreads), 0, CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
