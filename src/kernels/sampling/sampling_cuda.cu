// The greedy kernel: finds the largest logit of a row, and whether the row is sound, in one pass.
// Blocks divide a row by the vocabulary. The last block of a row to finish combines their results.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/sampling/sampling_device.h"
#include "kernels/sampling/sampling_draw.cuh"
#include "kernels/sampling/sampling_keys.cuh"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;
constexpr int kRuns = 4;
constexpr int32_t kChunk = kThreads * kWidth * kRuns;  // logits per block

// The best rank in a thread's part of a chunk.
template <bool kVectors>
__device__ __forceinline__ uint64_t BestOfThread(const float* row, int32_t first, int32_t n) {
  float values[kRuns][kWidth];
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const int32_t begin = first + run * kThreads * kWidth;
    LoadRun<kVectors>(row + begin, n - begin, values[run]);
  }
  float best = -INFINITY;
  int32_t best_id = first;
  bool flawed = false;
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const int32_t id = first + run * kThreads * kWidth + i;
      if (id >= n) continue;
      flawed |= !(values[run][i] < INFINITY);
      if (values[run][i] > best) {
        best = values[run][i];
        best_id = id;
      }
    }
  }
  return flawed ? kFlawedRank : RankKey(best, static_cast<uint32_t>(best_id));
}

__device__ __forceinline__ void WriteToken(const DrawRowsArgs& args, int32_t row, uint64_t best) {
  const bool drawable = IsDrawable(best);
  const int32_t token = drawable ? RankedToken(best) : -1;
  SampledToken& out = args.out[row];
  out.token = token;
  out.logprob = 0.0f;
  out.not_finite = !drawable;
  out.num_top = 0;
  if (args.device_tokens != nullptr) args.device_tokens[row] = token;
}

// Counts this block, and returns whether it is the last of `num_blocks`. The last block sees what
// the calling threads of all others wrote before. After the last block the counter is zero again.
__device__ __forceinline__ bool IsLastBlock(uint32_t* ticket, uint32_t num_blocks) {
  uint32_t num_before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(num_before)
               : "l"(ticket), "r"(num_blocks - 1)
               : "memory");
  return num_before == num_blocks - 1;
}

template <bool kVectors>
__global__ void __launch_bounds__(kThreads) GreedyKernel(DrawRowsArgs args) {
  __shared__ uint64_t warps[kThreads / kWarpThreads];
  const int32_t item = static_cast<int32_t>(blockIdx.y);
  const int32_t row = args.greedy_rows == nullptr ? item : args.greedy_rows[item];
  LetNextStart();
  WaitForPrevious();
  const int32_t first =
      static_cast<int32_t>(blockIdx.x) * kChunk + static_cast<int32_t>(threadIdx.x) * kWidth;
  const float* logits = args.logits + int64_t{row} * args.vocab_size;
  uint64_t best = ReduceBlock(BestOfThread<kVectors>(logits, first, args.vocab_size), ~uint64_t{0},
                              warps, Least{});
  if (threadIdx.x != 0) return;
  if (gridDim.x > 1) {
    // The blocks agree on the maximum of the complements. Its neutral element is zero, which the
    // word holds between launches.
    auto* row_best = reinterpret_cast<unsigned long long*>(&args.greedy_best[item]);
    atomicMax(row_best, ~best);
    if (!IsLastBlock(&args.tickets[item], gridDim.x)) return;
    best = ~__ldcg(row_best);
    *row_best = 0;
  }
  WriteToken(args, row, best);
}

}  // namespace

void DrawRowsCuda(const DrawRowsArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.logits) && args.vocab_size % kWidth == 0;
  if (args.num_greedy > 0) {
    const dim3 grid = GridOf(CeilDiv(args.vocab_size, kChunk), args.num_greedy);
    DispatchVectors(vectors, [&]<bool kVectors>() {
      LaunchKernel(GreedyKernel<kVectors>, grid, kThreads, 0, CudaStreamOf(stream), args);
    });
  }
  if (args.num_rows > 0) LaunchDrawKernel(args, stream);
}

}  // namespace graft
