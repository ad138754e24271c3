// One thread per four elements.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/scaled_add/scaled_add.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;

template <typename T, bool kVectors, bool kAdd>
__global__ void __launch_bounds__(kThreads) ScaledAddKernel(ScaledAddArgs args) {
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth;
  T* const y = static_cast<T*>(args.y) + begin;
  LetNextStart();
  WaitForPrevious();
  if (begin >= args.n) return;
  const int64_t count = args.n - begin;
  float values[kWidth];
  LoadRun<kVectors>(args.x + begin, count, values);
  if constexpr (kAdd) {
    float sums[kWidth];
    LoadRun<kVectors>(y, count, sums);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = __fmaf_rn(values[i], args.scale, sums[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = __fmul_rn(values[i], args.scale);
  }
  StoreRun<kVectors>(values, count, y);
}

template <typename T, bool kAdd>
void Launch(const ScaledAddArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.x) && IsVectorAligned(args.y) && args.n % kWidth == 0;
  const auto blocks = static_cast<unsigned>(CeilDiv(args.n, int64_t{kThreads} * kWidth));
  DispatchVectors(vectors, [&]<bool kVectors>() {
    LaunchKernel(ScaledAddKernel<T, kVectors, kAdd>, blocks, kThreads, 0, CudaStreamOf(stream),
                 args);
  });
}

}  // namespace

void ScaledAddCuda(const ScaledAddArgs& args, Stream& stream) {
  if (args.accumulate) return Launch<float, true>(args, stream);
  DispatchDType(args.y_dtype, [&]<typename T>() { Launch<T, false>(args, stream); });
}

}  // namespace graft
