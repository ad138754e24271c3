// One thread per eight columns of a row.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/gated_activation/gated_activation_cuda.cuh"
#include "kernels/gated_activation_backward/gated_activation_backward.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 8;
constexpr int kBlockElements = kThreads * kWidth;

// f(gate) is gate * sigmoid(t). `steepness` is gate dt/dgate, by which f' = sigmoid (1 + steepness
// (1 - sigmoid)).
struct GateTerms {
  float exponent;  // -t
  float steepness;
};

template <Activation kActivation>
__device__ __forceinline__ GateTerms TermsOf(float gate) {
  if constexpr (kActivation == Activation::kSilu) {
    return {-gate, gate};
  } else {
    // Beyond 20 on either side f is 0 or the gate itself, and the cube must not overflow.
    const float x = fmaxf(-20.0f, fminf(20.0f, gate));
    const float factor = __fmaf_rn(__fmul_rn(x, x), 0.134145f, 1.0f);
    return {GeluTanhExponent(gate), __fmul_rn(__fmul_rn(x, factor), 1.5957691216f)};
  }
}

template <typename T, typename D, bool kVectors, Activation kActivation>
__global__ void __launch_bounds__(kThreads)
    GatedActivationBackwardKernel(GatedActivationBackwardArgs args) {
  const int64_t row = blockIdx.x;
  const int64_t begin = int64_t{blockIdx.y} * kBlockElements + threadIdx.x * kWidth;
  LetNextStart();
  WaitForPrevious();
  if (begin >= args.n) return;
  const int64_t count = args.n - begin;
  const T* gates = static_cast<const T*>(args.gate_up) + row * 2 * args.n + begin;
  T* d_gates = static_cast<T*>(args.d_gate_up) + row * 2 * args.n + begin;
  float gate[kWidth], up[kWidth], d[kWidth];
  LoadRun<kVectors>(gates, count, gate);
  LoadRun<kVectors>(gates + args.n, count, up);
  LoadRun<kVectors>(static_cast<const D*>(args.d_out) + row * args.n + begin, count, d);
  if (args.activated != nullptr) {
    float activated[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      activated[i] = SigmoidTimes(gate[i], TermsOf<kActivation>(gate[i]).exponent, up[i]);
    }
    StoreRun<kVectors>(activated, count, static_cast<T*>(args.activated) + row * args.n + begin);
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const GateTerms terms = TermsOf<kActivation>(gate[i]);
    const float sigmoid = SigmoidTimes(1.0f, terms.exponent, 1.0f);
    const float slope = sigmoid * __fmaf_rn(terms.steepness, 1.0f - sigmoid, 1.0f);
    const float d_up = d[i] * gate[i] * sigmoid;
    gate[i] = d[i] * up[i] * slope;
    up[i] = d_up;
  }
  StoreRun<kVectors>(gate, count, d_gates);
  StoreRun<kVectors>(up, count, d_gates + args.n);
}

template <Activation kActivation>
void LaunchActivationBackward(const GatedActivationBackwardArgs& args, bool vectors,
                              Stream& stream) {
  const dim3 grid = GridOf(args.num_rows, CeilDiv(args.n, kBlockElements));
  DispatchDType(args.dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      const auto kernel = args.d_dtype == DType::kF32
                              ? GatedActivationBackwardKernel<T, float, kVectors, kActivation>
                              : GatedActivationBackwardKernel<T, T, kVectors, kActivation>;
      LaunchKernel(kernel, grid, dim3(kThreads), 0, CudaStreamOf(stream), args);
    });
  });
}

}  // namespace

void GatedActivationBackwardCuda(const GatedActivationBackwardArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.gate_up) && IsVectorAligned(args.d_out) &&
                       IsVectorAligned(args.d_gate_up) && IsVectorAligned(args.activated) &&
                       args.n % kWidth == 0;
  if (args.activation == Activation::kSilu) {
    LaunchActivationBackward<Activation::kSilu>(args, vectors, stream);
  } else {
    LaunchActivationBackward<Activation::kGeluTanh>(args, vectors, stream);
  }
}

}  // namespace graft
