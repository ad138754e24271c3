// One block per token of a run, of the longest run's length; blocks past a shorter one's end have
// nothing to do.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/virtual_embedding/virtual_embedding.h"

namespace graft {
namespace {

constexpr int kThreads = 128;
constexpr int kWidth = 8;

template <typename T, bool kVectors>
__global__ void __launch_bounds__(kThreads) VirtualEmbeddingKernel(VirtualEmbeddingArgs args) {
  LetNextStart();
  WaitForPrevious();
  const VirtualRun run = args.runs[blockIdx.y];
  const int32_t token = run.token_begin + static_cast<int32_t>(blockIdx.x);
  if (token >= run.token_end) return;
  const T* row = static_cast<const T*>(args.table[run.adapter_slot][token]);
  float* out = args.out + (run.place + int64_t{blockIdx.x}) * args.n;
  for (int64_t begin = threadIdx.x * kWidth; begin < args.n; begin += kThreads * kWidth) {
    float values[kWidth];
    LoadRun<kVectors>(row + begin, args.n - begin, values);
    StoreRun<kVectors>(values, args.n - begin, out + begin);
  }
}

}  // namespace

// Rows are aligned to 64 bytes, as all rows of adapters are.
void VirtualEmbeddingCuda(const VirtualEmbeddingArgs& args, Stream& stream) {
  if (args.num_runs == 0) return;
  const bool vectors = IsVectorAligned(args.out) && args.n % kWidth == 0;
  const dim3 grid = GridOf(args.run_tokens_max, args.num_runs);
  DispatchDType(args.dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      LaunchKernel(VirtualEmbeddingKernel<T, kVectors>, grid, kThreads, 0, CudaStreamOf(stream),
                   args);
    });
  });
}

}  // namespace graft
