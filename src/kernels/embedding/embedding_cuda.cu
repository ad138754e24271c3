// One block per run of kBlockElements of a row, so that even the few rows of a decode step occupy
// the whole card.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/embedding/embedding.h"

namespace graft {
namespace {

constexpr int kThreads = 128;
constexpr int kWidth = 8;
constexpr int kBlockElements = kThreads * kWidth;

template <typename T, bool kVectors, bool kAdd>
__global__ void __launch_bounds__(kThreads) EmbeddingKernel(EmbeddingArgs args) {
  const int64_t row = blockIdx.x;
  const int64_t begin = int64_t{blockIdx.y} * kBlockElements + threadIdx.x * kWidth;
  LetNextStart();
  WaitForPrevious();
  if (begin >= args.n) return;
  const int64_t count = args.n - begin;
  const int64_t word = int64_t{args.tokens[row]} - args.first_word;
  float values[kWidth] = {};
  if (word >= 0 && word < args.vocab_size) {
    LoadRun<kVectors>(static_cast<const T*>(args.table) + word * args.n + begin, count, values);
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = __fmul_rn(values[i], args.scale);
  float* const out = args.out + row * args.n + begin;
  if constexpr (kAdd) {
    float before[kWidth];
    LoadRun<kVectors>(out, count, before);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = __fadd_rn(before[i], values[i]);
  }
  StoreRun<kVectors>(values, count, out);
}

}  // namespace

void EmbeddingCuda(const EmbeddingArgs& args, Stream& stream) {
  if (args.num_tokens == 0) return;
  const bool vectors =
      IsVectorAligned(args.table) && IsVectorAligned(args.out) && args.n % kWidth == 0;
  const dim3 grid = GridOf(args.num_tokens, CeilDiv(args.n, kBlockElements));
  DispatchDType(args.dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      const auto kernel = args.accumulate ? EmbeddingKernel<T, kVectors, true>
                                          : EmbeddingKernel<T, kVectors, false>;
      LaunchKernel(kernel, grid, kThreads, 0, CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
