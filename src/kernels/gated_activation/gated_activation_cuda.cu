// One thread per eight columns, one block per run of kBlockElements of a row. 32 rows of 11008
// columns are 192 blocks: more than the card has multiprocessors, and all of them are resident at
// once.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/gated_activation/gated_activation_cuda.cuh"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 8;
constexpr int kBlockElements = kThreads * kWidth;

template <typename T, bool kVectors, Activation kActivation>
__global__ void __launch_bounds__(kThreads) GatedActivationKernel(GatedActivationArgs args) {
  const int64_t row = blockIdx.x;
  const int64_t begin = int64_t{blockIdx.y} * kBlockElements + threadIdx.x * kWidth;
  LetNextStart();
  WaitForPrevious();
  if (begin >= args.n) return;
  const int64_t count = args.n - begin;
  const float* gates = args.gate_up + row * 2 * args.n + begin;
  float gate[kWidth], up[kWidth];
  LoadRun<kVectors>(gates, count, gate);
  LoadRun<kVectors>(gates + args.n, count, up);
  if (args.copy != nullptr) {
    T* copy = static_cast<T*>(args.copy) + row * 2 * args.n + begin;
    StoreRun<kVectors>(gate, count, copy);
    StoreRun<kVectors>(up, count, copy + args.n);
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    up[i] = kActivation == Activation::kSilu ? SiluTimes(gate[i], up[i])
                                             : GeluTanhTimes(gate[i], up[i]);
  }
  StoreRun<kVectors>(up, count, static_cast<T*>(args.out) + row * args.n + begin);
}

}  // namespace

void GatedActivationCuda(const GatedActivationArgs& args, Stream& stream) {
  if (args.num_tokens == 0) return;
  const bool vectors = IsVectorAligned(args.gate_up) && IsVectorAligned(args.out) &&
                       IsVectorAligned(args.copy) && args.n % kWidth == 0;
  const dim3 grid = GridOf(args.num_tokens, CeilDiv(args.n, kBlockElements));
  DispatchDType(args.out_dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      const auto kernel = args.activation == Activation::kSilu
                              ? GatedActivationKernel<T, kVectors, Activation::kSilu>
                              : GatedActivationKernel<T, kVectors, Activation::kGeluTanh>;
      LaunchKernel(kernel, grid, kThreads, 0, CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
