// Kernels that take everything, on every card: exact products, sums in a fixed order, a warp per
// row and head. fp32 runs them for comparisons, and bf16 if no tensor cores take it. The table of
// kernels is here, too.
#include <algorithm>

#include "kernels/attention_backward/attention_backward_cuda.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/kernel_list.h"
#include "kernels/rope/rotate_pair.cuh"

namespace graft {
namespace attention_backward {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpThreads;

// A row of the batch, the rows of its sequence, and what stands before them.
struct Row {
  int row;
  int begin;
  int end;
  AttentionPrefix prefix;

  __device__ Row(const AttentionBackwardArgs& args, int row_of_batch) : row(row_of_batch) {
    int sequence = 0;
    while (row >= args.row_begin[sequence + 1]) ++sequence;
    begin = args.row_begin[sequence];
    end = args.row_begin[sequence + 1];
    if (args.prefixes != nullptr) prefix = args.prefixes[sequence];
  }
};

// T: the type of queries, keys and values. D: the type of d_out.
template <typename T, typename D, bool kCapsScores>
struct Types {
  using Element = T;
  using Gradient = D;
  static constexpr bool kCaps = kCapsScores;
};

// A key, and the value beside it.
template <typename T>
struct KeyValue {
  const T* key;
  const T* value;
};

template <typename T>
__device__ const T* HeadOf(const AttentionBackwardArgs& args, int row, int head) {
  return static_cast<const T*>(args.qkv) + row * args.qkv_stride + int64_t{head} * args.head_dim;
}
template <typename T>
__device__ KeyValue<T> OwnKey(const AttentionBackwardArgs& args, int row, int kv_head) {
  const T* key = HeadOf<T>(args, row, args.num_heads + kv_head);
  return {key, key + int64_t{args.num_kv_heads} * args.head_dim};
}
template <typename T>
__device__ KeyValue<T> PrefixKey(const AttentionBackwardArgs& args, const AttentionPrefix& prefix,
                                 int token, int kv_head) {
  const T* key = static_cast<const T*>(prefix.keys_values) + token * prefix.stride +
                 int64_t{kv_head} * args.head_dim;
  return {key, key + int64_t{args.num_kv_heads} * args.head_dim};
}
// Calls function(KeyValue) for every position that the row sees, in ascending order.
template <typename T, typename Function>
__device__ void ForEachKey(const Params& params, const Row& row, int kv_head,
                           const Function& function) {
  const AttentionBackwardArgs& args = params.args;
  const int num_before = row.prefix.num_tokens;
  const int first = max(num_before + row.row - row.begin - params.window + 1, 0);
  for (int token = first; token < num_before; ++token) {
    function(PrefixKey<T>(args, row.prefix, token, kv_head));
  }
  for (int key = row.begin + max(first - num_before, 0); key <= row.row; ++key) {
    function(OwnKey<T>(args, key, kv_head));
  }
}
template <typename D>
__device__ const D* DOut(const AttentionBackwardArgs& args, int row, int head) {
  return static_cast<const D*>(args.d_out) + (int64_t{row} * args.num_heads + head) * args.head_dim;
}

// The dot product of a [n] and b [n]. All lanes of a warp call it together, and all get the sum.
template <typename A, typename B>
__device__ float Dot(const A* a, const B* b, int n) {
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x) % kWarpThreads; i < n; i += kWarpThreads) {
    sum = __fmaf_rn(WidenElement(a[i]), WidenElement(b[i]), sum);
  }
  return ReduceWarp(sum, Add{});
}

template <typename Types>
__global__ void __launch_bounds__(kThreads) StatsKernel(const __grid_constant__ Params params) {
  using T = typename Types::Element;
  WaitForPrevious();
  const AttentionBackwardArgs& args = params.args;
  const int unit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (unit >= args.num_rows * args.num_heads) return;
  const int head = unit / args.num_rows;
  const Row row(args, unit % args.num_rows);
  const T* q = HeadOf<T>(args, row.row, head);
  float maximum = -INFINITY, sum = 0.0f;
  ForEachKey<T>(params, row, head / params.group, [&](const KeyValue<T>& at) {
    float score = args.scale * Dot(q, at.key, args.head_dim);
    if constexpr (Types::kCaps) score = args.score_cap * tanhf(score / args.score_cap);
    const float larger = fmaxf(maximum, score);
    sum = sum * expf(maximum - larger) + expf(score - larger);
    maximum = larger;
  });
  const T* out =
      static_cast<const T*>(args.out) + (int64_t{row.row} * args.num_heads + head) * args.head_dim;
  const float mean = Dot(DOut<typename Types::Gradient>(args, row.row, head), out, args.head_dim);
  if (threadIdx.x % kWarpThreads != 0) return;
  params.log_sums[unit] = maximum + logf(sum);
  params.means[unit] = mean;
}

// The softmax's weight of a key for a query, and the gradient of their product.
template <typename Types>
__device__ float2 WeightAndGradient(const Params& params, int query,
                                    const KeyValue<typename Types::Element>& at, int head) {
  const AttentionBackwardArgs& args = params.args;
  const int stat = head * args.num_rows + query;
  float score =
      args.scale * Dot(HeadOf<typename Types::Element>(args, query, head), at.key, args.head_dim);
  float slope = 1.0f;
  if constexpr (Types::kCaps) {
    const float tangent = tanhf(score / args.score_cap);
    score = args.score_cap * tangent;
    slope = 1.0f - tangent * tangent;
  }
  const float weight = expf(score - params.log_sums[stat]);
  const float worth =
      Dot(DOut<typename Types::Gradient>(args, query, head), at.value, args.head_dim);
  const float gradient = weight * (worth - params.means[stat]) * args.scale;
  return {weight, Types::kCaps ? gradient * slope : gradient};
}

constexpr int kLaneDims = 8;  // heads of up to 256
using LaneSums = float[kLaneDims];

// Writes a warp's sums of a head of a row, the first 2 `half` dimensions turned back.
template <typename T>
__device__ void StoreHead(const AttentionBackwardArgs& args, int row, int head, int half,
                          const LaneSums& sums) {
  __shared__ float heads[kWarps][kLaneDims * kWarpThreads];
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  float* const dims = heads[threadIdx.x / kWarpThreads];
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) dims[lane + 32 * i] = sums[i];
  __syncwarp();
  for (int pair = lane; pair < half; pair += kWarpThreads) {
    const int64_t angle = int64_t{args.positions[row]} * half + pair;
    float* const low = dims + (args.interleaved ? 2 * pair : pair);
    RotatePair(args.cos[angle], args.back_sin[angle], low, low + (args.interleaved ? 1 : half));
  }
  __syncwarp();
  T* const out =
      static_cast<T*>(args.d_qkv) + row * args.qkv_stride + int64_t{head} * args.head_dim;
  const float scale = QueryScaleOf(args, row, head);
  for (int dim = lane; dim < args.head_dim; dim += kWarpThreads) {
    out[dim] = NarrowElement<T>(dims[dim] * scale);
  }
  __syncwarp();
}

template <typename Types>
__global__ void __launch_bounds__(kThreads) QueriesKernel(const __grid_constant__ Params params) {
  using T = typename Types::Element;
  WaitForPrevious();
  const AttentionBackwardArgs& args = params.args;
  const int unit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (unit >= args.num_rows * args.num_heads) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int head = unit / args.num_rows;
  const Row row(args, unit % args.num_rows);
  LaneSums sums = {};
  ForEachKey<T>(params, row, head / params.group, [&](const KeyValue<T>& at) {
    const float gradient = WeightAndGradient<Types>(params, row.row, at, head).y;
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) {
      const int dim = lane + 32 * i;
      if (dim < args.head_dim) sums[i] = __fmaf_rn(gradient, WidenElement(at.key[dim]), sums[i]);
    }
  });
  StoreHead<T>(args, row.row, head, params.rotary_half, sums);
}

// Sums the gradients of a key and its value over the queries [begin, end) of all heads of its
// group, for this lane's dimensions.
template <typename Types>
__device__ void SumQueries(const Params& params, int begin, int end,
                           const KeyValue<typename Types::Element>& at, int kv_head, LaneSums& keys,
                           LaneSums& values) {
  const AttentionBackwardArgs& args = params.args;
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  for (int head = kv_head * params.group; head < (kv_head + 1) * params.group; ++head) {
    for (int query = begin; query < end; ++query) {
      const float2 w = WeightAndGradient<Types>(params, query, at, head);
      const auto* q = HeadOf<typename Types::Element>(args, query, head);
      const auto* d = DOut<typename Types::Gradient>(args, query, head);
#pragma unroll
      for (int i = 0; i < kLaneDims; ++i) {
        const int dim = lane + 32 * i;
        if (dim >= args.head_dim) continue;
        values[i] = __fmaf_rn(w.x, WidenElement(d[dim]), values[i]);
        keys[i] = __fmaf_rn(w.y, WidenElement(q[dim]), keys[i]);
      }
    }
  }
}

template <typename Types>
__global__ void __launch_bounds__(kThreads) KeysKernel(const __grid_constant__ Params params) {
  using T = typename Types::Element;
  WaitForPrevious();
  const AttentionBackwardArgs& args = params.args;
  const int unit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (unit >= args.num_rows * args.num_kv_heads) return;
  const int kv_head = unit / args.num_rows;
  const Row row(args, unit % args.num_rows);
  LaneSums keys = {}, values = {};
  const int end = min(row.end, row.row + params.window);
  SumQueries<Types>(params, row.row, end, OwnKey<T>(args, row.row, kv_head), kv_head, keys, values);
  const int key_head = args.num_heads + kv_head;
  StoreHead<T>(args, row.row, key_head, params.rotary_half, keys);
  StoreHead<T>(args, row.row, key_head + args.num_kv_heads, 0, values);
}

__device__ void StoreLane(const LaneSums& sums, int head_dim, float* out) {
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) {
    const int dim = static_cast<int>(threadIdx.x) % kWarpThreads + 32 * i;
    if (dim < head_dim) out[dim] = sums[i];
  }
}

// A warp per sequence, head and position of the longest prefix.
template <typename Types>
__global__ void __launch_bounds__(kThreads) PrefixKernel(const __grid_constant__ Params params) {
  using T = typename Types::Element;
  WaitForPrevious();
  const AttentionBackwardArgs& args = params.args;
  const int unit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int token = unit % args.prefix_tokens_max;
  const int kv_head = unit / args.prefix_tokens_max % args.num_kv_heads;
  const int sequence = unit / args.prefix_tokens_max / args.num_kv_heads;
  if (sequence >= args.num_sequences) return;
  const AttentionPrefix prefix = args.prefixes[sequence];
  if (token >= prefix.num_tokens) return;
  LaneSums keys = {}, values = {};
  const int begin = args.row_begin[sequence];
  const int num_seeing = max(token + params.window - prefix.num_tokens, 0);
  SumQueries<Types>(params, begin, min(args.row_begin[sequence + 1], begin + num_seeing),
                    PrefixKey<T>(args, prefix, token, kv_head), kv_head, keys, values);
  float* const out =
      prefix.d_keys_values + (int64_t{2} * args.num_kv_heads * token + kv_head) * args.head_dim;
  StoreLane(keys, args.head_dim, out);
  StoreLane(values, args.head_dim, out + int64_t{args.num_kv_heads} * args.head_dim);
}

template <typename Types>
void LaunchPlainOf(const Params& params, Stream& stream) {
  const AttentionBackwardArgs& args = params.args;
  CHECK_LE(args.head_dim, kLaneDims * kWarpThreads);
  const auto launch = [&](void (*kernel)(Params), int64_t units) {
    LaunchKernel(kernel, GridOf(CeilDiv(units, kWarps)), dim3(kThreads), 0, CudaStreamOf(stream),
                 params);
  };
  const int64_t queries = int64_t{args.num_rows} * args.num_heads;
  launch(StatsKernel<Types>, queries);
  launch(QueriesKernel<Types>, queries);
  launch(KeysKernel<Types>, int64_t{args.num_rows} * args.num_kv_heads);
  if (args.prefixes == nullptr) return;
  launch(PrefixKernel<Types>,
         int64_t{args.num_sequences} * args.num_kv_heads * args.prefix_tokens_max);
}

template <typename T, typename D>
void LaunchPlainOf(const Params& params, Stream& stream) {
  if (params.args.score_cap > 0.0f) {
    LaunchPlainOf<Types<T, D, true>>(params, stream);
  } else {
    LaunchPlainOf<Types<T, D, false>>(params, stream);
  }
}

void LaunchPlain(const Params& params, Stream& stream) {
  if (params.args.dtype == DType::kF32) return LaunchPlainOf<float, float>(params, stream);
  CHECK(params.args.dtype == DType::kBF16) << DTypeName(params.args.dtype);
  if (params.rounds) return LaunchPlainOf<Bfloat16, float>(params, stream);
  LaunchPlainOf<Bfloat16, Bfloat16>(params, stream);
}

bool TakesTensorGeneral(const Params& params) {
  const AttentionBackwardArgs& args = params.args;
  return args.dtype == DType::kBF16 && args.head_dim % 8 == 0 && IsVectorAligned(args.qkv) &&
         IsVectorAligned(args.qkv_stride * 2) && IsVectorAligned(args.scratch) &&
         IsVectorAligned(args.d_out) && IsVectorAligned(args.out) && IsVectorAligned(args.d_qkv);
}

bool TakesTensorCores(const Params& params) {
  const int32_t head_dim = params.args.head_dim;
  return TakesTensorGeneral(params) && (head_dim == 64 || head_dim == 128) &&
         params.args.window == 0 && params.args.score_cap == 0.0f &&
         params.rotary_half * 2 == head_dim && !params.args.interleaved;
}

constexpr KernelRow<Params> kKernels[] = {{"tensor-cores",
                                           "bf16; full attention, heads of 64 and 128",
                                           {.hopper_code = true},
                                           TakesTensorCores,
                                           LaunchTensorCores},
                                          {"tensor-general",
                                           "bf16; also windows and caps, heads by eights",
                                           {.hopper_code = true},
                                           TakesTensorGeneral,
                                           LaunchTensorGeneral},
                                          {"mma-sync",
                                           "bf16; heads by eights",
                                           {.shared_bytes = 99 << 10},
                                           TakesTensorGeneral,
                                           LaunchMma},
                                          {"plain", "all", {}, nullptr, LaunchPlain}};

}  // namespace
}  // namespace attention_backward

void TellAttentionBackwardKernels(KernelList* list) {
  TellKernels("attention_backward", attention_backward::kKernels, list);
}

void AttentionBackwardCuda(const AttentionBackwardArgs& args, Stream& stream) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr int32_t kAllPositions = 1 << 30;  // with as many again in front, it is no overflow
  const bool caps = args.score_cap > 0.0f;
  const int64_t stats = int64_t{args.num_rows} * args.num_heads;
  attention_backward::Params params{
      .args = args,
      .log_sums = args.scratch,
      .means = args.scratch + stats,
      .rounds = args.d_dtype != args.dtype,
      .d_rounded = reinterpret_cast<Bfloat16*>(args.scratch + (2 * stats + 3) / 4 * 4),
      .scale_log2 = static_cast<float>(static_cast<double>(args.scale) * kLog2E),
      .group = args.num_heads / args.num_kv_heads,
      .window = args.window > 0 ? std::min(args.window, kAllPositions) : kAllPositions,
      .cap_log2 = static_cast<float>((caps ? args.score_cap : args.scale) * kLog2E),
      .curve = caps ? -1.0f : 0.0f};
  if (caps) params.cap_exponent = static_cast<float>(2.0 * kLog2E * args.scale / args.score_cap);
  if (args.cos != nullptr) {
    params.rotary_half = (args.rotary_dim > 0 ? args.rotary_dim : args.head_dim) / 2;
  }
  if (!params.rounds) params.d_rounded = static_cast<Bfloat16*>(const_cast<void*>(args.d_out));
  ChooseKernel(attention_backward::kKernels, params, TraitsOf(stream.device))
      .launch(params, stream);
}

}  // namespace graft
