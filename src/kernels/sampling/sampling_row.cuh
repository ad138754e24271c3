// What a block of kRowThreads threads can find out about one row of logits. Nothing is sorted:
// bounds are found by bisection over the integers that order the logits (sampling_keys.cuh). It
// runs among a few candidates in shared memory where they fit, and over the whole row where they do
// not. All sums are sums of integers, so neither the order of candidates nor the number of threads
// shows in a result. All threads of the block call each function, with equal arguments unless its
// comment says otherwise.
#pragma once

#include <cstdint>

#include "kernels/common/cuda_reduce.cuh"
#include "kernels/sampling/sampling_keys.cuh"

namespace graft {

inline constexpr int kRowThreads = 1024;
inline constexpr int kRowWarps = kRowThreads / kWarpThreads;
inline constexpr int kCandidatesMax = 8192;
inline constexpr int kOneWarpMax = 2048;

// A block's shared memory.
struct RowShared {
  uint64_t warps[2][kRowWarps];
  uint64_t segments[kRowWarps];
  float logits[kCandidatesMax];
  float weights[kCandidatesMax];
  int32_t ids[kCandidatesMax];
  int32_t num_candidates;
  int32_t token;
  float kept_bound;
  int32_t kept_id_max;
};

// The logits to look at: candidates in any order, or a whole row (ids null).
struct Elements {
  const float* logits;
  const int32_t* ids;
  int32_t n;
  const float* weights = nullptr;  // null if they were not computed beforehand

  // Whether they are so few that one warp alone is faster than the block with its barriers. If so,
  // only the first warp calls the functions that look at them.
  __device__ __forceinline__ bool IsForOneWarp() const {
    return ids != nullptr && n <= kOneWarpMax;
  }
  __device__ __forceinline__ int32_t Id(int32_t i) const { return ids == nullptr ? i : ids[i]; }
};

// The tokens that the filters leave. Their logits are above `bound`, or equal to it with ids up to
// id_max; and their weights are at least weight_min.
struct Kept {
  float bound = -INFINITY;
  int32_t id_max = INT32_MAX;
  float weight_min = 0.0f;

  __device__ __forceinline__ bool KeepsAll() const {
    return bound == -INFINITY && weight_min == 0.0f;
  }
  __device__ __forceinline__ uint64_t Weight(float logit, int32_t id,
                                             const Weigher& weigher) const {
    // Most logits are below the bound, in whole warps at a time, and skip the exponential.
    if (logit < bound || (logit == bound && id > id_max)) return 0;
    const float weight = weigher.Weigh(logit);
    return weight >= weight_min ? FixedWeight(weight) : 0;
  }
};

class RowBlock {
 public:
  __device__ explicit RowBlock(RowShared* shared) : shared_(*shared) {}

  // Returns the row's best rank, or kFlawedRank. If `copy` is not null it gets the logits.
  // *thread_key becomes the largest key that this thread saw.
  __device__ uint64_t Scan(const float* logits, int32_t n, float* copy, uint32_t* thread_key) {
    float best = -INFINITY;
    int32_t best_id = 0;
    bool flawed = false;
#pragma unroll 8
    for (int32_t i = Thread(); i < n; i += kRowThreads) {
      const float logit = logits[i];
      if (copy != nullptr) copy[i] = logit;
      flawed |= !(logit < INFINITY);
      if (logit > best) {
        best = logit;
        best_id = i;
      }
    }
    *thread_key = AscendingKey(best);
    return Reduce(flawed ? kFlawedRank : RankKey(best, static_cast<uint32_t>(best_id)),
                  ~uint64_t{0}, Least{});
  }

  // Returns the total weight of what is kept, and leaves the sums of the row's kRowWarps segments
  // in shared memory.
  __device__ uint64_t SumSegments(const float* logits, int32_t n, const Weigher& weigher,
                                  const Kept& kept) {
    const int32_t begin = SegmentSize(n) * Warp();
    const int32_t end = min(n, begin + SegmentSize(n));
    uint64_t sum = 0;
    if (kept.KeepsAll()) {
#pragma unroll 8
      for (int32_t i = begin + Lane(); i < end; i += kWarpThreads) {
        sum += FixedWeight(weigher.Weigh(logits[i]));
      }
    } else {
      for (int32_t id = begin + Lane(); id < end; id += kBatch * kWarpThreads) {
        float batch[kBatch];
        LoadBatch(logits, id, end, kWarpThreads, &batch);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          sum += kept.Weight(batch[i], id + i * kWarpThreads, weigher);
        }
      }
    }
    sum = ReduceWarp(sum, Add{});
    __syncthreads();  // the values from before may still be in use
    if (Lane() == 0) shared_.segments[Warp()] = sum;
    __syncthreads();
    return ReduceWarp(shared_.segments[Lane()], Add{});
  }

  // Draws by the inverse of the distribution, in the order of ids. `random_bits` / 2^64 is the
  // uniform number.
  __device__ int32_t Draw(const float* logits, int32_t n, const Weigher& weigher, const Kept& kept,
                          uint64_t random_bits) {
    const uint64_t total = SumSegments(logits, n, weigher, kept);
    const uint64_t target = __umul64hi(random_bits, total);
    int32_t segment = 0;
    uint64_t before = 0;
    while (segment < kRowWarps - 1 && before + shared_.segments[segment] <= target) {
      before += shared_.segments[segment++];
    }
    // Each thread takes one run of neighbours of the segment.
    const int32_t run = SegmentSize(n) / kRowThreads + 1;
    const int32_t segment_end = min(n, (segment + 1) * SegmentSize(n));
    const int32_t begin = min(segment_end, segment * SegmentSize(n) + Thread() * run);
    const int32_t end = min(segment_end, begin + run);
    uint64_t own = 0;
    for (int32_t i = begin; i < end; ++i) own += kept.Weight(logits[i], i, weigher);
    uint64_t sum = before + SumOfThreadsBefore(own);
    if (sum <= target && sum + own > target) {
      int32_t token = begin;
      for (sum += kept.Weight(logits[token], token, weigher); sum <= target;) {
        ++token;
        sum += kept.Weight(logits[token], token, weigher);
      }
      shared_.token = token;
    }
    __syncthreads();
    return shared_.token;
  }

  // A key that at least k of the threads' keys reach. So at least k logits reach it, too. k is at
  // most kRowThreads.
  __device__ uint32_t BoundOfLargest(uint32_t thread_key, int32_t k, uint32_t high) {
    uint32_t low = kMinusInfinityKey;
    while (low < high) {
      const uint32_t middle = high - (high - low) / 2;
      if (__syncthreads_count(thread_key >= middle) >= k) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  // The row's logits that are at least `bound`: in shared memory or, if they are too many, the
  // whole row.
  __device__ Elements Gather(const float* logits, int32_t n, float bound) {
    __syncthreads();
    if (Thread() == 0) shared_.num_candidates = 0;
    __syncthreads();
    for (int32_t base = Thread(); base - Thread() < n; base += kBatch * kRowThreads) {
      float batch[kBatch];
      LoadBatch(logits, base, n, kRowThreads, &batch);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int32_t id = base + i * kRowThreads;
        AddCandidate(batch[i], id, id < n && batch[i] >= bound);
      }
    }
    __syncthreads();
    if (shared_.num_candidates > kCandidatesMax) return {logits, nullptr, n};
    return {shared_.logits, shared_.ids, shared_.num_candidates};
  }

  // Computes candidates->weights, if the candidates lie in shared memory.
  __device__ void Weigh(const Weigher& weigher, Elements* candidates) {
    if (candidates->ids == nullptr) return;
    for (int32_t i = Thread(); i < candidates->n; i += kRowThreads) {
      shared_.weights[i] = weigher.Weigh(shared_.logits[i]);
    }
    __syncthreads();
    candidates->weights = shared_.weights;
  }

  // The functions below look at elements. One warp calls them where the elements are few
  // (Elements::IsForOneWarp).

  // How many elements are at least `bound` (Count), and what they weigh (WeightFrom).
  __device__ uint64_t Count(const Elements& elements, float bound) {
    return Sum(elements, [&](int32_t i) { return uint64_t{elements.logits[i] >= bound}; });
  }
  __device__ uint64_t WeightFrom(const Elements& elements, const Weigher& weigher, float bound) {
    if (elements.weights != nullptr) {
      return Sum(elements, [&](int32_t i) {
        return elements.logits[i] >= bound ? FixedWeight(elements.weights[i]) : 0;
      });
    }
    return Sum(elements, [&](int32_t i) {
      const float logit = elements.logits[i];
      return logit >= bound ? FixedWeight(weigher.Weigh(logit)) : 0;
    });
  }
  // How many elements equal `logit` and have an id up to id_max.
  __device__ uint64_t CountEquals(const Elements& elements, float logit, int32_t id_max) {
    return Sum(elements, [&](int32_t i) {
      return uint64_t{elements.logits[i] == logit && elements.Id(i) <= id_max};
    });
  }

  // Calls cut(kept), which looks at these candidates, in the threads that should look at them. Then
  // all threads get its result.
  template <typename Cut>
  __device__ void CutBy(const Elements& candidates, Kept* kept, const Cut& cut) {
    if (!candidates.IsForOneWarp()) return cut(kept);
    if (Warp() == 0) {
      cut(kept);
      if (Lane() == 0) {
        shared_.kept_bound = kept->bound;
        shared_.kept_id_max = kept->id_max;
      }
    }
    __syncthreads();
    kept->bound = shared_.kept_bound;
    kept->id_max = shared_.kept_id_max;
  }

  // The best rank after `previous`; the largest integer if there is none.
  __device__ uint64_t NextRank(const Elements& elements, uint64_t previous) {
    const bool one_warp = elements.IsForOneWarp();
    const int32_t stride = one_warp ? kWarpThreads : kRowThreads;
    uint64_t best = ~uint64_t{0};
    for (int32_t i = Thread(); i < elements.n; i += stride) {
      const uint64_t rank = RankKey(elements.logits[i], static_cast<uint32_t>(elements.Id(i)));
      if (rank > previous && rank < best) best = rank;
    }
    if (one_warp) return ReduceWarp(best, Least{});
    return Reduce(best, ~uint64_t{0}, Least{});
  }

 private:
  static __device__ __forceinline__ int32_t Thread() { return static_cast<int32_t>(threadIdx.x); }
  static __device__ __forceinline__ int32_t Lane() { return Thread() % kWarpThreads; }
  static __device__ __forceinline__ int32_t Warp() { return Thread() / kWarpThreads; }
  static __device__ __forceinline__ int32_t SegmentSize(int32_t n) {
    return (n + kRowThreads - 1) / kRowThreads * kWarpThreads;
  }

  // Loads kBatch logits, so that their waits for memory overlap: ids first, first + stride, ... and
  // -Inf from `end` on.
  static constexpr int kBatch = 8;
  static __device__ __forceinline__ void LoadBatch(const float* logits, int32_t first, int32_t end,
                                                   int32_t stride, float (*batch)[kBatch]) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int32_t id = first + i * stride;
      (*batch)[i] = id < end ? logits[id] : -INFINITY;
    }
  }

  // Called by whole warps. Candidates for which there is no room are counted, too.
  __device__ __forceinline__ void AddCandidate(float logit, int32_t id, bool wanted) {
    const unsigned votes = __ballot_sync(0xffffffffu, wanted);
    if (votes == 0) return;
    int32_t place = 0;
    if (Lane() == 0) place = atomicAdd(&shared_.num_candidates, __popc(votes));
    place = __shfl_sync(0xffffffffu, place, 0) + __popc(votes & ((1u << Lane()) - 1));
    if (wanted && place < kCandidatesMax) {
      shared_.logits[place] = logit;
      shared_.ids[place] = id;
    }
  }

  // Two scratches take turns. A thread that writes to one has passed the barrier of the call that
  // used the other, and all threads reach that barrier only after they have read the first.
  template <typename Combine>
  __device__ uint64_t Reduce(uint64_t value, uint64_t neutral, const Combine& combine) {
    turn_ ^= 1;
    return ReduceBlock(value, neutral, shared_.warps[turn_], combine);
  }

  template <typename Function>
  __device__ uint64_t Sum(const Elements& elements, const Function& function) {
    const bool one_warp = elements.IsForOneWarp();
    const int32_t stride = one_warp ? kWarpThreads : kRowThreads;
    uint64_t sum = 0;
#pragma unroll 4
    for (int32_t i = Thread(); i < elements.n; i += stride) sum += function(i);
    return one_warp ? ReduceWarp(sum, Add{}) : Reduce(sum, 0, Add{});
  }

  // The sum of `value` over the threads before this one; it differs between threads.
  __device__ uint64_t SumOfThreadsBefore(uint64_t value) {
    uint64_t inclusive = value;
#pragma unroll
    for (int distance = 1; distance < kWarpThreads; distance *= 2) {
      const uint64_t lower = __shfl_up_sync(0xffffffffu, inclusive, distance);
      if (Lane() >= distance) inclusive += lower;
    }
    turn_ ^= 1;
    uint64_t* totals = shared_.warps[turn_];
    if (Lane() == kWarpThreads - 1) totals[Warp()] = inclusive;
    __syncthreads();
    return ReduceWarp(Lane() < Warp() ? totals[Lane()] : 0, Add{}) + inclusive - value;
  }

  RowShared& shared_;
  int turn_ = 0;
};

}  // namespace graft
