// One thread per four elements.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/soft_cap/soft_cap.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;

template <bool kVectors>
__global__ void __launch_bounds__(kThreads) SoftCapKernel(SoftCapArgs args) {
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth;
  LetNextStart();
  WaitForPrevious();
  if (begin >= args.n) return;
  const int64_t count = args.n - begin;
  float values[kWidth];
  LoadRun<kVectors>(args.x + begin, count, values);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    values[i] = __fmul_rn(args.cap, tanhf(__fdiv_rn(values[i], args.cap)));
  }
  StoreRun<kVectors>(values, count, args.x + begin);
}

}  // namespace

void SoftCapCuda(const SoftCapArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.x) && args.n % kWidth == 0;
  DispatchVectors(vectors, [&]<bool kVectors>() {
    LaunchKernel(SoftCapKernel<kVectors>,
                 static_cast<unsigned>(CeilDiv(args.n, int64_t{kThreads} * kWidth)), kThreads, 0,
                 CudaStreamOf(stream), args);
  });
}

}  // namespace graft
