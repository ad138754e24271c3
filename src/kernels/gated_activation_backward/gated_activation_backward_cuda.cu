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

template <typename T, typename D, bool kVectors>
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
    for (int i = 0; i < kWidth; ++i) activated[i] = SiluTimes(gate[i], up[i]);
    StoreRun<kVectors>(activated, count, static_cast<T*>(args.activated) + row * args.n + begin);
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float sigmoid = SigmoidTimes(1.0f, -gate[i], 1.0f);
    const float slope = sigmoid * __fmaf_rn(gate[i], 1.0f - sigmoid, 1.0f);  // of silu
    const float d_up = d[i] * gate[i] * sigmoid;
    gate[i] = d[i] * up[i] * slope;
    up[i] = d_up;
  }
  StoreRun<kVectors>(gate, count, d_gates);
  StoreRun<kVectors>(up, count, d_gates + args.n);
}

}  // namespace

void GatedActivationBackwardCuda(const GatedActivationBackwardArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.gate_up) && IsVectorAligned(args.d_out) &&
                       IsVectorAligned(args.d_gate_up) && IsVectorAligned(args.activated) &&
                       args.n % kWidth == 0;
  const dim3 grid = GridOf(args.num_rows, CeilDiv(args.n, kBlockElements));
  DispatchDType(args.dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      const auto kernel = args.d_dtype == DType::kF32
                              ? GatedActivationBackwardKernel<T, float, kVectors>
                              : GatedActivationBackwardKernel<T, T, kVectors>;
      LaunchKernel(kernel, grid, dim3(kThreads), 0, CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
