// A block per row.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/round_rows/round_rows.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;

template <typename T>
__global__ void __launch_bounds__(kThreads) RoundRowsKernel(RoundRowsArgs args) {
  WaitForPrevious();
  const RoundedRow row = args.rows[blockIdx.x];
  const float* x = args.x + row.begin;
  T* out = static_cast<T*>(row.out);
  const bool vectors = row.n % kWidth == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(out) % 16 == 0;
  for (int64_t begin = int64_t{threadIdx.x} * kWidth; begin < row.n;
       begin += int64_t{kThreads} * kWidth) {
    float v[kWidth];
    if (vectors) {
      LoadRun<true>(x + begin, row.n - begin, v);
      StoreRun<true>(v, row.n - begin, out + begin);
    } else {
      LoadRun<false>(x + begin, row.n - begin, v);
      StoreRun<false>(v, row.n - begin, out + begin);
    }
  }
  // No kernel begins before this one's end. One that then begins may read the rows without waiting.
  __threadfence();
}

}  // namespace

void RoundRowsCuda(const RoundRowsArgs& args, Stream& stream) {
  DispatchDType(args.dtype, [&]<typename T>() {
    LaunchKernel(RoundRowsKernel<T>, GridOf(args.num_rows), dim3(kThreads), 0, CudaStreamOf(stream),
                 args);
  });
}

}  // namespace graft
