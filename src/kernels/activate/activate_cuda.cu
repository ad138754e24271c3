// One thread per eight elements.
#include "kernels/activate/activate.h"
#include "kernels/activate/activate_cuda.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft {
namespace {

constexpr int kActivateThreads = 128;
constexpr int kActivateWidth = 8;

template <typename T, bool kVectors, Activation kActivation>
__global__ void __launch_bounds__(kActivateThreads) ActivateKernel(ActivateArgs args) {
  const int64_t begin =
      (int64_t{blockIdx.x} * kActivateThreads + threadIdx.x) * int64_t{kActivateWidth};
  LetNextStart();
  WaitForPrevious();
  const int64_t count = args.n - begin;
  if (count <= 0) return;
  float values[kActivateWidth];
  LoadRun<kVectors>(args.x + begin, count, values);
  if (args.copy != nullptr) StoreRun<kVectors>(values, count, static_cast<T*>(args.copy) + begin);
#pragma unroll
  for (int i = 0; i < kActivateWidth; ++i) values[i] = ActivatedElement<kActivation>(values[i]);
  StoreRun<kVectors>(values, count, static_cast<T*>(args.out) + begin);
}

template <typename T, bool kVectors>
auto ActivateKernelOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return ActivateKernel<T, kVectors, Activation::kSilu>;
    case Activation::kGelu:
      return ActivateKernel<T, kVectors, Activation::kGelu>;
    case Activation::kRelu:
      return ActivateKernel<T, kVectors, Activation::kRelu>;
    case Activation::kGeluTanh:
      break;
  }
  return ActivateKernel<T, kVectors, Activation::kGeluTanh>;
}

}  // namespace

void ActivateCuda(const ActivateArgs& args, Stream& stream) {
  if (args.n == 0) return;
  const bool vectors = IsVectorAligned(args.x) && IsVectorAligned(args.out) &&
                       IsVectorAligned(args.copy) && args.n % kActivateWidth == 0;
  const dim3 grid = GridOf(CeilDiv(args.n, int64_t{kActivateThreads} * kActivateWidth));
  DispatchDType(args.out_dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      LaunchKernel(ActivateKernelOf<T, kVectors>(args.activation), grid, kActivateThreads, 0,
                   CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
