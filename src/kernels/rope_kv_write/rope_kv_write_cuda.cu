// Half a warp per head of a row: 16 lanes hold both halves of the head in registers from the only
// read to the only write. For 32 rows of Llama-2-7B all 1536 warps are resident at once.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/rope/rotate_pair.cuh"
#include "kernels/rope_kv_write/rope_kv_write.h"

namespace graft {
namespace {

constexpr int kThreads = 128;
constexpr int kWidth = 4;
constexpr int kLanes = 16;  // per head
constexpr int kHeadsPerBlock = kThreads / kLanes;

// A head's dimensions are taken in pairs of a lower and an upper one. The lower ones of a lane's
// run are consecutive. In the rotating part of the head their partners lie in that part's second
// half. The part that stays is divided in the same way. Where rotating pairs are neighbours, a run
// of them is eight consecutive dimensions, of which `low` has the first four.
struct HeadRun {
  float low[kWidth];
  float high[kWidth];
};

// Where a half-warp works: its row, its head (counted over queries, keys and values), and this
// thread's lane.
struct Place {
  int64_t row;
  int head;
  int lane;
  bool is_key;
  bool is_value;
};

// What the host knows about a row.
struct RowNumbers {
  int32_t position;
  int32_t page;
  int32_t slot;
};

// Where a run lies in the head and in the row of angles, and how much of it exists.
struct RunRange {
  int low;
  int high;
  int low_count;
  int high_count;
  bool rotates;
  int angle;
  int angle_count;
};

// How a head is divided into runs. If anything stays behind the rotating part, that part is whole
// runs.
template <bool kInterleaved>
struct HeadShape {
  static constexpr bool kIsInterleaved = kInterleaved;
  int head_dim;
  int rotary_dim;

  __device__ __forceinline__ explicit HeadShape(const RopeKvWriteArgs& args)
      : head_dim(args.layout.head_dim), rotary_dim(args.rotary_dim) {}

  __device__ __forceinline__ RunRange RangeOf(int lane, int run) const {
    const int half = rotary_dim / 2;
    const int begin = (run * kLanes + lane) * kWidth;
    const int count = half - begin;
    if (begin < half || half == head_dim / 2) {
      if constexpr (kInterleaved) {
        return {2 * begin, 2 * begin + kWidth, 2 * count, 2 * count - kWidth, true, begin, count};
      }
      return {begin, begin + half, count, count, true, begin, count};
    }
    const int kept_half = head_dim / 2 - half;
    const int in_kept = begin - half;
    const int kept_count = kept_half - in_kept;
    return {rotary_dim + in_kept,
            rotary_dim + kept_half + in_kept,
            kept_count,
            kept_count,
            false,
            0,
            0};
  }
};

// The order of the sum depends on head_dim alone.
template <bool kVectors, int kRuns>
__device__ __forceinline__ void NormalizeHead(const HeadRun (&weights)[kRuns], float epsilon,
                                              int head_dim, HeadRun (&x)[kRuns]) {
  float sum = 0.0f;
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      sum = __fmaf_rn(x[run].low[i], x[run].low[i], sum);
      sum = __fmaf_rn(x[run].high[i], x[run].high[i], sum);
    }
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  const float inverse = 1.0f / sqrtf(sum / static_cast<float>(head_dim) + epsilon);
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      x[run].low[i] = x[run].low[i] * inverse * weights[run].low[i];
      x[run].high[i] = x[run].high[i] * inverse * weights[run].high[i];
    }
  }
}

template <typename T, bool kVectors, int kRuns, typename Shape>
__device__ __forceinline__ void WriteToPage(const RopeKvWriteArgs& args, const Place& place,
                                            const RowNumbers& numbers, const Shape& shape,
                                            const HeadRun (&x)[kRuns]) {
  const KvLayout& layout = args.layout;
  if (numbers.page < 0) return;
  const int kv_head = place.head - args.num_q_heads - (place.is_value ? layout.num_kv_heads : 0);
  T* out = static_cast<T*>(args.pool) +
           layout.KeyOffset(numbers.page, args.layer, kv_head, numbers.slot) +
           (place.is_value ? layout.KeyElements() : 0);
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const RunRange range = shape.RangeOf(place.lane, run);
    StoreRun<kVectors>(x[run].low, range.low_count, out + range.low);
    StoreRun<kVectors>(x[run].high, range.high_count, out + range.high);
  }
}

template <bool kVectors, int kRuns, typename Shape>
__device__ __forceinline__ void LoadHead(const float* from, int lane, const Shape& shape,
                                         HeadRun (&out)[kRuns]) {
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const RunRange range = shape.RangeOf(lane, run);
    LoadRun<kVectors>(from + range.low, range.low_count, out[run].low);
    LoadRun<kVectors>(from + range.high, range.high_count, out[run].high);
  }
}

// `to` is where the head begins.
template <bool kVectors, int kRuns, typename Shape, typename T>
__device__ __forceinline__ void StoreHead(const HeadRun (&x)[kRuns], int lane, const Shape& shape,
                                          T* to) {
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const RunRange range = shape.RangeOf(lane, run);
    StoreRun<kVectors>(x[run].low, range.low_count, to + range.low);
    StoreRun<kVectors>(x[run].high, range.high_count, to + range.high);
  }
}

// The rotation of each dimension of a run.
struct Angles {
  float cos[kWidth];
  float sin[kWidth];
};

template <bool kVectors, int kRuns, typename Shape>
__device__ __forceinline__ void LoadAngles(const RopeKvWriteArgs& args, int lane, int32_t position,
                                           const Shape& shape, Angles (&angles)[kRuns]) {
  const int64_t first = int64_t{position} * (args.rotary_dim / 2);
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const RunRange range = shape.RangeOf(lane, run);
    if (!range.rotates) continue;
    LoadRun<kVectors>(args.cos + first + range.angle, range.angle_count, angles[run].cos);
    LoadRun<kVectors>(args.sin + first + range.angle, range.angle_count, angles[run].sin);
  }
}

template <bool kVectors, int kRuns, typename Shape>
__device__ __forceinline__ void RotateHead(const Angles (&angles)[kRuns], int lane,
                                           const Shape& shape, HeadRun (&x)[kRuns], float* out) {
#pragma unroll
  for (int run = 0; run < kRuns; ++run) {
    const RunRange range = shape.RangeOf(lane, run);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (!range.rotates) continue;
      RotatePairOfRun<Shape::kIsInterleaved>(i, angles[run].cos[i], angles[run].sin[i], x[run].low,
                                             x[run].high);
    }
    StoreRun<kVectors>(x[run].low, range.low_count, out + range.low);
    StoreRun<kVectors>(x[run].high, range.high_count, out + range.high);
  }
}

template <typename T, bool kVectors, int kRuns, bool kInterleaved>
__global__ void __launch_bounds__(kThreads) RopeKvWriteKernel(RopeKvWriteArgs args) {
  const KvLayout& layout = args.layout;
  const int num_heads = args.num_q_heads + 2 * layout.num_kv_heads;
  const HeadShape<kInterleaved> shape(args);
  const int head = static_cast<int>(blockIdx.y * kHeadsPerBlock + threadIdx.x / kLanes);
  const Place place = {.row = blockIdx.x,
                       .head = head,
                       .lane = static_cast<int>(threadIdx.x % kLanes),
                       .is_key = head >= args.num_q_heads && head < num_heads - layout.num_kv_heads,
                       .is_value = head >= num_heads - layout.num_kv_heads};
  const bool active = head < num_heads;
  const bool normalizes = args.q_norm_weight != nullptr;
  LetNextStart();
  HeadRun weights[kRuns];
  if (normalizes) {
    LoadHead<kVectors>(place.is_key ? args.k_norm_weight : args.q_norm_weight, place.lane, shape,
                       weights);
  }
  // These arrays do not change while the step runs.
  const RowNumbers numbers = {args.positions[place.row], args.row_page[place.row],
                              args.row_slot[place.row]};
  Angles angles[kRuns] = {};
  if (active && !place.is_value) {
    LoadAngles<kVectors>(args, place.lane, numbers.position, shape, angles);
  }
  const bool scales = args.query_scale != nullptr && head < args.num_q_heads;
  const float scale = scales ? args.query_scale[numbers.position] : 1.0f;
  WaitForPrevious();

  float* data = args.qkv + place.row * args.row_stride + int64_t{head} * layout.head_dim;
  HeadRun x[kRuns] = {};
  if (active) LoadHead<kVectors>(data, place.lane, shape, x);
  if (normalizes) {
    if (args.unnormed != nullptr && active && !place.is_value) {
      const int num_turned = num_heads - layout.num_kv_heads;
      T* kept = static_cast<T*>(args.unnormed) + (place.row * num_turned + head) * layout.head_dim;
      StoreHead<kVectors>(x, place.lane, shape, kept);
    }
    // All lanes join the sum, those of values and of inactive heads too, because a shuffle needs
    // the whole warp.
    HeadRun normed[kRuns];
#pragma unroll
    for (int run = 0; run < kRuns; ++run) normed[run] = x[run];
    NormalizeHead<kVectors>(weights, args.norm_epsilon, layout.head_dim, normed);
#pragma unroll
    for (int run = 0; run < kRuns; ++run) x[run] = place.is_value ? x[run] : normed[run];
  }
  if (!active) return;
  if (scales) {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        x[run].low[i] *= scale;
        x[run].high[i] *= scale;
      }
    }
  }
  if (!place.is_value) RotateHead<kVectors>(angles, place.lane, shape, x, data);
  if (args.copy != nullptr) {
    T* copy = static_cast<T*>(args.copy) + (place.row * num_heads + head) * layout.head_dim;
    StoreHead<kVectors>(x, place.lane, shape, copy);
  }
  if (place.is_key || place.is_value) WriteToPage<T, kVectors>(args, place, numbers, shape, x);
}

template <typename T, bool kVectors, bool kInterleaved>
auto* KernelOf(int64_t half) {
  constexpr int64_t kOneRun = int64_t{kLanes} * kWidth;
  return half <= kOneRun ? RopeKvWriteKernel<T, kVectors, 1, kInterleaved>
                         : RopeKvWriteKernel<T, kVectors, 2, kInterleaved>;
}

}  // namespace

void RopeKvWriteCuda(const RopeKvWriteArgs& args, Stream& stream) {
  if (args.num_rows == 0) return;
  const KvLayout& layout = args.layout;
  const int64_t half = layout.head_dim / 2;
  const bool vectors =
      half % kWidth == 0 && args.rotary_dim / 2 % kWidth == 0 && IsVectorAligned(args.qkv) &&
      args.row_stride % kWidth == 0 && IsVectorAligned(args.cos) && IsVectorAligned(args.sin) &&
      IsVectorAligned(args.pool) && IsVectorAligned(args.copy) && IsVectorAligned(args.unnormed) &&
      IsVectorAligned(args.q_norm_weight) && IsVectorAligned(args.k_norm_weight);
  const int64_t num_heads = args.num_q_heads + int64_t{2} * layout.num_kv_heads;
  const dim3 grid = GridOf(args.num_rows, CeilDiv(num_heads, kHeadsPerBlock));
  DispatchDType(layout.dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      const auto kernel =
          args.interleaved ? KernelOf<T, kVectors, true>(half) : KernelOf<T, kVectors, false>(half);
      LaunchKernel(kernel, grid, kThreads, 0, CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
