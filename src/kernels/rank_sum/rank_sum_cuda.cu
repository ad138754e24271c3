// A meeting: each rank's first thread block writes the meeting's number into a word of every other
// rank's block, and all thread blocks wait for the words in their own. A rank comes to a meeting
// when all its kernels before have ended, so it has written its part by then. No rank waits at a
// kernel's end: before a rank writes a part anew, it has met all others since they read that part
// (layers/gpu_exchange.cc).
#include <algorithm>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/rank_sum/rank_sum.h"

namespace graft {
namespace {

constexpr int kThreads = 512;
constexpr int kTokenThreads = 1024;
constexpr int kVector = 4;  // floats

// Words of a block: those that others write, a cache line each, and the rank's own.
constexpr int64_t kWordStride = 64;
constexpr int64_t kMeetingAt = 2048;
constexpr int64_t kLeftAt = kMeetingAt + kWordStride;
constexpr int64_t kGaveUpAt = kLeftAt + kWordStride;
static_assert(kGpuRanksMax * kWordStride <= kMeetingAt && kGaveUpAt < kRankWordsBytes);

__device__ __forceinline__ uint32_t* WordAt(char* block, int64_t at) {
  return reinterpret_cast<uint32_t*>(block + at);
}
__device__ __forceinline__ void SayToRank(uint32_t* word, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ __forceinline__ uint32_t HearRank(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ __forceinline__ int64_t NowNs() {
  int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Past this GPU's first cache, which knows nothing of what others write.
template <int kWidth>
struct Run {
  float at[kWidth];
};
__device__ __forceinline__ Run<4> LoadOfRank(const float* p, Run<4>*) {
  Run<4> run;
  asm volatile("ld.relaxed.sys.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(run.at[0]), "=f"(run.at[1]), "=f"(run.at[2]), "=f"(run.at[3])
               : "l"(p)
               : "memory");
  return run;
}
__device__ __forceinline__ Run<1> LoadOfRank(const float* p, Run<1>*) {
  Run<1> run;
  asm volatile("ld.relaxed.sys.global.f32 %0, [%1];" : "=f"(run.at[0]) : "l"(p) : "memory");
  return run;
}
template <int kWidth>
__device__ __forceinline__ Run<kWidth> LoadOfRank(const float* p) {
  return LoadOfRank(p, static_cast<Run<kWidth>*>(nullptr));
}

// A kernel looks so often for a rank that is not there yet before it asks whether that will come.
constexpr uint32_t kLooks = 1024;

__device__ __noinline__ void WaitLong(const RankBlocks& ranks, int32_t other, uint32_t meeting) {
  char* const own = ranks.blocks[ranks.rank];
  const int64_t begin_ns = NowNs();
  for (uint32_t looks = 1;; ++looks) {
    if (static_cast<int32_t>(HearRank(WordAt(own, other * kWordStride)) - meeting) >= 0) return;
    if (looks % kLooks != 0) continue;
    if (*static_cast<volatile uint32_t*>(WordAt(own, kGaveUpAt)) != 0) return;
    const bool is_late = NowNs() - begin_ns > ranks.timeout_ns;
    if (!is_late && *static_cast<const volatile uint32_t*>(ranks.broken) == 0) continue;
    *static_cast<volatile uint32_t*>(WordAt(own, kGaveUpAt)) = 1;
    if (is_late) *static_cast<volatile uint32_t*>(ranks.late) = static_cast<uint32_t>(1 + other);
    __threadfence_system();
    return;
  }
}

// By all threads, once a kernel.
__device__ __forceinline__ void Meet(const RankBlocks& ranks) {
  if (!ranks.meets) return;
  char* const own = ranks.blocks[ranks.rank];
  const auto other = static_cast<int32_t>(threadIdx.x);
  if (other < ranks.num_ranks && other != ranks.rank) {
    const uint32_t meeting = *static_cast<volatile uint32_t*>(WordAt(own, kMeetingAt)) + 1;
    if (blockIdx.x == 0) {
      __threadfence_system();
      SayToRank(WordAt(ranks.blocks[other], ranks.rank * kWordStride), meeting);
    }
    bool is_there = false;
    for (uint32_t looks = 0; looks < kLooks && !is_there; ++looks) {
      is_there = static_cast<int32_t>(HearRank(WordAt(own, other * kWordStride)) - meeting) >= 0;
    }
    if (!is_there) WaitLong(ranks, other, meeting);
  }
  __syncthreads();
}

// The last thread block that leaves counts the meeting: all have read its number.
__device__ __forceinline__ void Leave(const RankBlocks& ranks) {
  if (!ranks.meets) return;
  char* const own = ranks.blocks[ranks.rank];
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (atomicAdd(WordAt(own, kLeftAt), 1u) != gridDim.x - 1) return;
  *WordAt(own, kLeftAt) = 0;
  *WordAt(own, kMeetingAt) += 1;
}

__device__ __forceinline__ void Delay(int64_t delay_ns) {
  if (delay_ns == 0) return;
  const int64_t begin_ns = NowNs();
  while (NowNs() - begin_ns < delay_ns) {
  }
}

__global__ void __launch_bounds__(32) MeetKernel(const __grid_constant__ RankBlocks ranks) {
  LetNextStart();
  WaitForPrevious();
  Meet(ranks);
  Leave(ranks);
}

__global__ void __launch_bounds__(kTokenThreads)
    TokensKernel(const __grid_constant__ RankTokensArgs args) {
  LetNextStart();
  WaitForPrevious();
  if (args.ranks.rank == 0) {
    auto* const out = reinterpret_cast<int32_t*>(args.ranks.blocks[0] + args.block_begin);
    for (int64_t i = threadIdx.x; i < args.n; i += kTokenThreads) out[i] = args.tokens[i];
    __syncthreads();
  }
  Meet(args.ranks);
  Leave(args.ranks);
}

// kRanks: 0 for any number.
template <int kRanks, int kWidth>
__device__ __forceinline__ Run<kWidth> SumAt(const RankSumArgs& args, int64_t i) {
  const auto part = [&](int rank) {
    return reinterpret_cast<const float*>(args.ranks.blocks[rank] + args.part_begin) + i;
  };
  Run<kWidth> sum;
  if constexpr (kRanks > 0) {
    Run<kWidth> parts[kRanks];
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) parts[rank] = LoadOfRank<kWidth>(part(rank));
    sum = parts[0];
#pragma unroll
    for (int rank = 1; rank < kRanks; ++rank) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum.at[j] = __fadd_rn(sum.at[j], parts[rank].at[j]);
    }
  } else {
    sum = LoadOfRank<kWidth>(part(0));
    for (int rank = 1; rank < args.ranks.num_ranks; ++rank) {
      const Run<kWidth> one = LoadOfRank<kWidth>(part(rank));
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum.at[j] = __fadd_rn(sum.at[j], one.at[j]);
    }
  }
  return sum;
}

template <int kWidth>
__device__ __forceinline__ void Put(const Run<kWidth>& sum, bool accumulates, float* out) {
  float values[kWidth] = {};
  if (accumulates) LoadRun<kWidth == 4>(out, kWidth, values);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    values[j] = accumulates ? __fadd_rn(values[j], sum.at[j]) : sum.at[j];
  }
  StoreRun<kWidth == 4>(values, kWidth, out);
}

// Reads every rank's part.
template <int kRanks, int kWidth>
__global__ void __launch_bounds__(kThreads) SumKernel(const __grid_constant__ RankSumArgs args) {
  LetNextStart();
  WaitForPrevious();
  Meet(args.ranks);
  Delay(args.delay_ns);
  const int64_t step = int64_t{gridDim.x} * kThreads * kWidth;
  for (int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth; i < args.n; i += step) {
    Put<kWidth>(SumAt<kRanks, kWidth>(args, i), args.accumulates, args.out + i);
  }
  Leave(args.ranks);
}

// What of n numbers a rank sums up for all.
__host__ __device__ inline int64_t SliceOf(int64_t n, int32_t num_ranks) {
  return ((n + kVector - 1) / kVector + num_ranks - 1) / num_ranks * kVector;
}

// Reads a slice of every rank's part, and leaves its sums in the rank's block.
template <int kRanks, int kWidth>
__global__ void __launch_bounds__(kThreads)
    SumSliceKernel(const __grid_constant__ RankSumArgs args) {
  LetNextStart();
  WaitForPrevious();
  const int64_t slice = SliceOf(args.n, args.ranks.num_ranks);
  const int64_t begin = args.ranks.rank * slice;
  const int64_t end = min(begin + slice, args.n);
  auto* const sums = reinterpret_cast<float*>(args.ranks.blocks[args.ranks.rank] + args.sums_begin);
  Meet(args.ranks);
  const int64_t step = int64_t{gridDim.x} * kThreads * kWidth;
  for (int64_t i = begin + (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth; i < end;
       i += step) {
    const Run<kWidth> sum = SumAt<kRanks, kWidth>(args, i);
    StoreRun<kWidth == 4>(sum.at, kWidth, sums + (i - begin));
    Put<kWidth>(sum, args.accumulates, args.out + i);
  }
  Leave(args.ranks);
}

// Reads the others' sums.
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    TakeSumsKernel(const __grid_constant__ RankSumArgs args) {
  LetNextStart();
  WaitForPrevious();
  const int64_t slice = SliceOf(args.n, args.ranks.num_ranks);
  Meet(args.ranks);
  const int64_t step = int64_t{gridDim.x} * kThreads * kWidth;
  for (int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth; i < args.n; i += step) {
    const int64_t rank = i / slice;
    if (rank == args.ranks.rank) continue;
    const auto* const sums =
        reinterpret_cast<const float*>(args.ranks.blocks[rank] + args.sums_begin);
    Put<kWidth>(LoadOfRank<kWidth>(sums + (i - rank * slice)), args.accumulates, args.out + i);
  }
  Leave(args.ranks);
}

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    GatherKernel(const __grid_constant__ RankGatherArgs args) {
  LetNextStart();
  WaitForPrevious();
  const int64_t words_max = (args.vocab_size + args.ranks.num_ranks - 1) / args.ranks.num_ranks;
  const int64_t n = args.num_rows * args.vocab_size;
  Meet(args.ranks);
  Delay(args.delay_ns);
  const int64_t step = int64_t{gridDim.x} * kThreads * kWidth;
  for (int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth; i < n; i += step) {
    const int64_t row = i / args.vocab_size;
    const int64_t word = i - row * args.vocab_size;
    const int64_t rank = word / words_max;
    const int64_t first = rank * words_max;
    const int64_t words = min(words_max, args.vocab_size - first);
    const auto* const part =
        reinterpret_cast<const float*>(args.ranks.blocks[rank] + args.part_begin);
    const Run<kWidth> run = LoadOfRank<kWidth>(part + row * words + (word - first));
    StoreRun<kWidth == 4>(run.at, kWidth, args.out + i);
  }
  Leave(args.ranks);
}

// One run a thread as long as all find a place; few enough that they do.
dim3 GridFor(int64_t n, int width) {
  const int64_t blocks_max = int64_t{2} * CurrentTraits().num_multiprocessors;
  return GridOf(std::clamp<int64_t>(CeilDiv(n, int64_t{kThreads} * width), 1, blocks_max));
}

template <int kRanks, int kWidth>
void LaunchSum(const RankSumArgs& args, Stream& stream) {
  const cudaStream_t cuda = CudaStreamOf(stream);
  const int32_t num_ranks = args.ranks.num_ranks;
  if (!args.ranks.meets || RankSumMeetings(args.n, num_ranks) == 1) {
    LaunchKernel(SumKernel<kRanks, kWidth>, GridFor(args.n, kWidth), kThreads, 0, cuda, args);
    return;
  }
  LaunchKernel(SumSliceKernel<kRanks, kWidth>, GridFor(SliceOf(args.n, num_ranks), kWidth),
               kThreads, 0, cuda, args);
  LaunchKernel(TakeSumsKernel<kWidth>, GridFor(args.n, kWidth), kThreads, 0, cuda, args);
}

template <int kWidth>
void LaunchSumOf(const RankSumArgs& args, Stream& stream) {
  switch (args.ranks.num_ranks) {
    case 2:
      return LaunchSum<2, kWidth>(args, stream);
    case 4:
      return LaunchSum<4, kWidth>(args, stream);
    case 8:
      return LaunchSum<8, kWidth>(args, stream);
    default:
      return LaunchSum<0, kWidth>(args, stream);
  }
}

}  // namespace

void MeetRanksCuda(const RankBlocks& ranks, Stream& stream) {
  LaunchKernel(MeetKernel, 1, 32, 0, CudaStreamOf(stream), ranks);
}

void ShareRankTokensCuda(const RankTokensArgs& args, Stream& stream) {
  LaunchKernel(TokensKernel, 1, kTokenThreads, 0, CudaStreamOf(stream), args);
}

void RankSumCuda(const RankSumArgs& args, Stream& stream) {
  if (IsVectorAligned(args.out) && args.n % kVector == 0) {
    LaunchSumOf<kVector>(args, stream);
  } else {
    LaunchSumOf<1>(args, stream);
  }
}

void RankGatherCuda(const RankGatherArgs& args, Stream& stream) {
  if (args.ranks.rank != 0) return MeetRanksCuda(args.ranks, stream);
  const cudaStream_t cuda = CudaStreamOf(stream);
  const int64_t n = args.num_rows * args.vocab_size;
  const bool vectors =
      IsVectorAligned(args.out) && args.vocab_size % (int64_t{kVector} * args.ranks.num_ranks) == 0;
  if (vectors) {
    LaunchKernel(GatherKernel<kVector>, GridFor(n, kVector), kThreads, 0, cuda, args);
  } else {
    LaunchKernel(GatherKernel<1>, GridFor(n, 1), kThreads, 0, cuda, args);
  }
}

}  // namespace graft
