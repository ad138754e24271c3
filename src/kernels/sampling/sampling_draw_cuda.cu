// One block per row: log-probabilities, penalties, filters and draw, in the order of
// docs/sampling.md.
#include "base/random.h"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/sampling/sampling_draw.cuh"
#include "kernels/sampling/sampling_row.cuh"

namespace graft {
namespace {

// A block's shared memory.
struct DrawShared {
  RowShared row;
  alignas(16) uint32_t item[(sizeof(DeviceRow) + 3) / 4];
};

// A row, and what Scan found in it.
struct ScannedLogits {
  const float* logits;
  int32_t n;
  uint64_t best;        // the row's best rank
  uint32_t thread_key;  // differs between threads

  __device__ __forceinline__ float maximum() const { return RankedLogit(best); }
  __device__ __forceinline__ uint32_t maximum_key() const { return AscendingKey(maximum()); }
};

__device__ bool AdjustsLogits(const SamplingRow& row) {
  const bool penalises = row.repetition_penalty != 1.0f || row.frequency_penalty != 0.0f ||
                         row.presence_penalty != 0.0f;
  return (penalises && row.num_counts > 0) || row.num_logit_bias > 0 || row.num_banned > 0 ||
         row.mask != nullptr;
}

// Applies penalties, then biases, then bans and the mask. A token may be in each list, but in
// counts only once.
__device__ void AdjustLogits(const SamplingRow& row, int32_t n, float* logits) {
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < row.num_counts; i += kRowThreads) {
    const TokenCount count = row.counts[i];
    float logit = logits[count.token];
    if (count.in_prompt || count.num_output > 0) {
      logit = logit < 0.0f ? __fmul_rn(logit, row.repetition_penalty)
                           : __fdiv_rn(logit, row.repetition_penalty);
    }
    if (count.num_output > 0) {
      logit -= __fadd_rn(__fmul_rn(row.frequency_penalty, static_cast<float>(count.num_output)),
                         row.presence_penalty);
    }
    logits[count.token] = logit;
  }
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < row.num_logit_bias; i += kRowThreads) {
    atomicAdd(&logits[row.logit_bias[i].first], row.logit_bias[i].second);
  }
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < row.num_banned; i += kRowThreads) {
    logits[row.banned[i]] = -INFINITY;
  }
  if (row.mask != nullptr) {
    // The threads of a warp read one word.
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < n; i += kRowThreads) {
      if ((row.mask[i / 32] >> (i % 32) & 1) == 0) logits[i] = -INFINITY;
    }
  }
  __syncthreads();
}

// Writes the likeliest tokens, without those of probability zero. Only the first thread learns
// their number.
__device__ int32_t WriteTop(const ScannedLogits& row, int32_t num_top, double log_sum,
                            RowBlock& block, SampledToken* out) {
  if (num_top <= 0) return 0;
  const uint32_t bound = block.BoundOfLargest(row.thread_key, num_top, row.maximum_key());
  const Elements candidates = block.Gather(row.logits, row.n, LogitOfKey(bound));
  if (candidates.IsForOneWarp() && threadIdx.x >= kWarpThreads) return 0;
  uint64_t rank = 0;
  for (int32_t i = 0; i < num_top; ++i) {
    rank = block.NextRank(candidates, rank);
    if (rank == ~uint64_t{0} || !IsDrawable(rank)) return i;
    if (threadIdx.x == 0) {
      out->top_tokens[i] = RankedToken(rank);
      out->top_logprobs[i] = static_cast<float>(RankedLogit(rank) - log_sum);
    }
  }
  return num_top;
}

__device__ double LogSumExp(const ScannedLogits& row, RowBlock& block) {
  const Weigher weigher = {row.maximum(), 1.0f};
  const uint64_t total = block.SumSegments(row.logits, row.n, weigher, Kept{});
  return row.maximum() + log(ldexp(static_cast<double>(total), -kWeightBits));
}

// The largest key in [low, high] at which `measure`, of all logits from that key up, reaches
// `target`. Returns low if there is none.
template <typename Measure>
__device__ uint32_t LargestKeyThatReaches(uint32_t low, uint32_t high, uint64_t target,
                                          const Measure& measure) {
  while (low < high) {
    const uint32_t middle = high - (high - low) / 2;
    if (measure(LogitOfKey(middle)) >= target) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Keeps the likeliest tokens, as few as together have a weight of `target` or more. Among equal
// logits lower ids come first.
__device__ void KeepLikeliest(const ScannedLogits& row, const Elements& candidates,
                              const Weigher& weigher, uint32_t low, uint64_t target,
                              RowBlock& block, Kept* kept) {
  const uint32_t key = LargestKeyThatReaches(low, row.maximum_key(), target, [&](float bound) {
    return block.WeightFrom(candidates, weigher, bound);
  });
  kept->bound = LogitOfKey(key);
  const uint64_t above =
      key == row.maximum_key() ? 0 : block.WeightFrom(candidates, weigher, LogitOfKey(key + 1));
  const uint64_t weight = FixedWeight(weigher.Weigh(kept->bound));
  if (weight == 0 || above >= target) return;
  const uint64_t num_wanted = (target - above + weight - 1) / weight;
  if (block.CountEquals(candidates, kept->bound, INT32_MAX) <= num_wanted) return;
  int32_t id_low = 0, id_high = row.n - 1;
  while (id_low < id_high) {
    const int32_t middle = id_low + (id_high - id_low) / 2;
    if (block.CountEquals(candidates, kept->bound, middle) >= num_wanted) {
      id_high = middle;
    } else {
      id_low = middle + 1;
    }
  }
  kept->id_max = id_low;
}

// A logit below which every weight is below exp(exponent_min). It leaves room for rounding.
__device__ float BoundOfWeight(const ScannedLogits& row, const Weigher& weigher,
                               double exponent_min) {
  const double bound = fmax(row.maximum() + (exponent_min - 1e-3) / weigher.inverse_temperature,
                            static_cast<double>(-3.402823466e38f));
  return nextafterf(static_cast<float>(bound), -INFINITY);
}

// What top_k, then top_p, then min_p leave of a row.
__device__ Kept Filter(const ScannedLogits& row, const SamplingRow& settings,
                       const Weigher& weigher, RowBlock& block) {
  Kept kept;
  kept.weight_min = settings.min_p;
  if (settings.min_p > 0.0f) {
    kept.bound = BoundOfWeight(row, weigher, log(static_cast<double>(settings.min_p)));
  }
  const bool cuts_k = settings.top_k > 0 && settings.top_k < row.n;
  const bool cuts_p = settings.top_p < 1.0f;
  if (!cuts_k && !cuts_p) return kept;
  uint64_t total = 0;
  uint32_t low = kMinusInfinityKey;
  if (!cuts_k) {
    total = block.SumSegments(row.logits, row.n, weigher, Kept{});
    // All logits below this bound together weigh less than top_p may leave out.
    const double left_out =
        (1.0 - settings.top_p) * ldexp(static_cast<double>(total), -kWeightBits) / row.n;
    low = AscendingKey(fmaxf(kept.bound, BoundOfWeight(row, weigher, log(left_out))));
  } else if (settings.top_k <= kRowThreads) {
    low = block.BoundOfLargest(row.thread_key, settings.top_k, row.maximum_key());
  }
  Elements candidates = block.Gather(row.logits, row.n, LogitOfKey(low));
  if (cuts_p) block.Weigh(weigher, &candidates);
  block.CutBy(candidates, &kept, [&](Kept* cut) {
    if (cuts_k) {
      low = LargestKeyThatReaches(low, row.maximum_key(), static_cast<uint64_t>(settings.top_k),
                                  [&](float bound) { return block.Count(candidates, bound); });
      cut->bound = LogitOfKey(low);
      if (!cuts_p) return;
      total = block.WeightFrom(candidates, weigher, cut->bound);
    }
    const auto target = static_cast<uint64_t>(ceil(settings.top_p * static_cast<double>(total)));
    KeepLikeliest(row, candidates, weigher, low, max(target, uint64_t{1}), block, cut);
  });
  return kept;
}

__device__ int32_t DrawToken(const ScannedLogits& row, const SamplingRow& settings,
                             RowBlock& block) {
  if (settings.temperature == 0.0f) return RankedToken(row.best);
  const Weigher weigher = {row.maximum(), 1.0f / fmaxf(settings.temperature, 1e-30f)};
  const Kept kept = Filter(row, settings, weigher, block);
  // RandomUniform's 53 bits, as a fraction of 64 bits.
  const uint64_t bits = RandomBits(settings.seed, settings.draw_idx) >> 11 << 11;
  return block.Draw(row.logits, row.n, weigher, kept, bits);
}

__device__ void WriteResult(const DrawRowsArgs& args, int32_t row, const SampledToken& result) {
  if (threadIdx.x != 0) return;
  SampledToken& out = args.out[row];
  out.token = result.token;
  out.logprob = result.logprob;
  out.not_finite = result.token < 0;
  out.num_top = result.token < 0 ? 0 : result.num_top;
  if (args.device_tokens != nullptr) args.device_tokens[row] = result.token;
}

__device__ void SampleRow(const DrawRowsArgs& args, const DeviceRow& item, RowBlock& block) {
  const SamplingRow& settings = item.settings;
  const float* logits = args.logits + int64_t{item.row_idx} * args.vocab_size;
  const bool adjusts = item.given_token < 0 && AdjustsLogits(settings);
  float* adjusted = args.adjusted + int64_t{blockIdx.x} * args.vocab_size;
  SampledToken result;
  ScannedLogits row = {.logits = logits, .n = args.vocab_size};
  row.best = block.Scan(logits, row.n, adjusts ? adjusted : nullptr, &row.thread_key);
  if (!IsDrawable(row.best)) return WriteResult(args, item.row_idx, result);
  double log_sum = 0.0;
  if (settings.num_logprobs >= 0) {
    log_sum = LogSumExp(row, block);
    result.num_top = WriteTop(row, settings.num_logprobs, log_sum, block, &args.out[item.row_idx]);
  }
  if (adjusts) {
    AdjustLogits(settings, args.vocab_size, adjusted);
    row.logits = adjusted;
    row.best = block.Scan(adjusted, row.n, nullptr, &row.thread_key);
    if (!IsDrawable(row.best)) return WriteResult(args, item.row_idx, result);
  }
  result.token = item.given_token >= 0 ? item.given_token : DrawToken(row, settings, block);
  if (settings.num_logprobs >= 0) {
    result.logprob = static_cast<float>(logits[result.token] - log_sum);
  }
  WriteResult(args, item.row_idx, result);
}

__global__ void __launch_bounds__(kRowThreads) DrawKernel(DrawRowsArgs args) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* shared = reinterpret_cast<DrawShared*>(bytes);
  // The host wrote the row before the launch, so no wait is needed.
  const auto* item = reinterpret_cast<const uint32_t*>(&args.rows[blockIdx.x]);
  if (threadIdx.x < sizeof(DeviceRow) / 4) shared->item[threadIdx.x] = item[threadIdx.x];
  LetNextStart();
  WaitForPrevious();
  __syncthreads();
  RowBlock block(&shared->row);
  SampleRow(args, *reinterpret_cast<const DeviceRow*>(shared->item), block);
}

}  // namespace

void LaunchDrawKernel(const DrawRowsArgs& args, Stream& stream) {
  static const cudaError_t allowed = cudaFuncSetAttribute(
      DrawKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(DrawShared));
  CUDA_CHECK(allowed);
  LaunchKernel(DrawKernel, static_cast<unsigned>(args.num_rows), kRowThreads, sizeof(DrawShared),
               CudaStreamOf(stream), args);
}

}  // namespace graft
