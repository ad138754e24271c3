// One thread per eight elements.
#include "kernels/activate/activate_cuda.cuh"
#include "kernels/activate_backward/activate_backward.h"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 8;

// f(x) is x sigmoid(t). `steepness` is x dt/dx.
__device__ __forceinline__ float SlopeOfSigmoid(float exponent, float steepness) {
  const float sigmoid = SigmoidTimes(1.0f, exponent, 1.0f);
  return __fmul_rn(sigmoid, __fmaf_rn(steepness, 1.0f - sigmoid, 1.0f));
}

// NaN stays. Beyond 20 on either side f is 0 or x itself, and powers of x must not overflow.
template <Activation kActivation>
__device__ __forceinline__ float SlopeOfElement(float x) {
  const float y = fmaxf(-20.0f, fminf(20.0f, x));
  if constexpr (kActivation == Activation::kSilu) {
    return SlopeOfSigmoid(-x, x);
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    const float factor = __fmaf_rn(__fmul_rn(y, y), 0.134145f, 1.0f);
    return SlopeOfSigmoid(GeluTanhExponent(x), __fmul_rn(__fmul_rn(y, factor), 1.5957691216f));
  } else if constexpr (kActivation == Activation::kGelu) {
    const float density = __fmul_rn(0.3989422804f, expf(__fmul_rn(__fmul_rn(y, y), -0.5f)));
    return __fmaf_rn(y, density, normcdff(x));
  } else {
    return x > 0.0f ? 1.0f : x <= 0.0f ? 0.0f : x;
  }
}

template <typename T, typename D, bool kVectors, Activation kActivation>
__global__ void __launch_bounds__(kThreads) ActivateBackwardKernel(ActivateBackwardArgs args) {
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * int64_t{kWidth};
  LetNextStart();
  WaitForPrevious();
  const int64_t count = args.n - begin;
  if (count <= 0) return;
  float x[kWidth], d[kWidth];
  LoadRun<kVectors>(static_cast<const T*>(args.x) + begin, count, x);
  LoadRun<kVectors>(static_cast<const D*>(args.d_out) + begin, count, d);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) d[i] = __fmul_rn(d[i], SlopeOfElement<kActivation>(x[i]));
  StoreRun<kVectors>(d, count, static_cast<T*>(args.d_x) + begin);
  if (args.activated == nullptr) return;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) x[i] = ActivatedElement<kActivation>(x[i]);
  StoreRun<kVectors>(x, count, static_cast<T*>(args.activated) + begin);
}

template <typename T, typename D, bool kVectors>
auto ActivateBackwardKernelOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return ActivateBackwardKernel<T, D, kVectors, Activation::kSilu>;
    case Activation::kGelu:
      return ActivateBackwardKernel<T, D, kVectors, Activation::kGelu>;
    case Activation::kRelu:
      return ActivateBackwardKernel<T, D, kVectors, Activation::kRelu>;
    case Activation::kGeluTanh:
      break;
  }
  return ActivateBackwardKernel<T, D, kVectors, Activation::kGeluTanh>;
}

}  // namespace

void ActivateBackwardCuda(const ActivateBackwardArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.x) && IsVectorAligned(args.d_out) &&
                       IsVectorAligned(args.d_x) && IsVectorAligned(args.activated) &&
                       args.n % kWidth == 0;
  const dim3 grid = GridOf(CeilDiv(args.n, int64_t{kThreads} * kWidth));
  DispatchDType(args.dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      const auto kernel = args.d_dtype == DType::kF32
                              ? ActivateBackwardKernelOf<T, float, kVectors>(args.activation)
                              : ActivateBackwardKernelOf<T, T, kVectors>(args.activation);
      LaunchKernel(kernel, grid, dim3(kThreads), 0, CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
