// fp32, for comparisons: exact products, sums in a fixed order, a warp per row and head. And the
// table of kernels.
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

__device__ const float* HeadOf(const AttentionBackwardArgs& args, int row, int head) {
  return static_cast<const float*>(args.qkv) + row * args.qkv_stride +
         int64_t{head} * args.head_dim;
}
// A key, and the value beside it.
struct KeyValue {
  const float* key;
  const float* value;
};
__device__ KeyValue OwnKey(const AttentionBackwardArgs& args, int row, int kv_head) {
  const float* key = HeadOf(args, row, args.num_heads + kv_head);
  return {key, key + int64_t{args.num_kv_heads} * args.head_dim};
}
__device__ KeyValue PrefixKey(const AttentionBackwardArgs& args, const AttentionPrefix& prefix,
                              int token, int kv_head) {
  const float* key = static_cast<const float*>(prefix.keys_values) + token * prefix.stride +
                     int64_t{kv_head} * args.head_dim;
  return {key, key + int64_t{args.num_kv_heads} * args.head_dim};
}
// Of all that the row sees, in their order.
template <typename Function>
__device__ void ForEachKey(const AttentionBackwardArgs& args, const Row& row, int kv_head,
                           const Function& function) {
  for (int token = 0; token < row.prefix.num_tokens; ++token) {
    function(PrefixKey(args, row.prefix, token, kv_head));
  }
  for (int key = row.begin; key <= row.row; ++key) function(OwnKey(args, key, kv_head));
}
__device__ const float* DOut(const AttentionBackwardArgs& args, int row, int head) {
  return static_cast<const float*>(args.d_out) +
         (int64_t{row} * args.num_heads + head) * args.head_dim;
}
__device__ float* DHead(const AttentionBackwardArgs& args, int row, int head) {
  return static_cast<float*>(args.d_qkv) + row * args.qkv_stride + int64_t{head} * args.head_dim;
}

// Of all lanes together.
__device__ float Dot(const float* a, const float* b, int n) {
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x) % kWarpThreads; i < n; i += kWarpThreads) {
    sum = __fmaf_rn(a[i], b[i], sum);
  }
  return ReduceWarp(sum, Add{});
}

__global__ void __launch_bounds__(kThreads) StatsKernel(const __grid_constant__ Params params) {
  WaitForPrevious();
  const AttentionBackwardArgs& args = params.args;
  const int unit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (unit >= args.num_rows * args.num_heads) return;
  const int head = unit / args.num_rows;
  const Row row(args, unit % args.num_rows);
  const float* q = HeadOf(args, row.row, head);
  float maximum = -INFINITY, sum = 0.0f;
  ForEachKey(args, row, head / params.group, [&](const KeyValue& at) {
    const float score = args.scale * Dot(q, at.key, args.head_dim);
    const float larger = fmaxf(maximum, score);
    sum = sum * expf(maximum - larger) + expf(score - larger);
    maximum = larger;
  });
  const float* out = static_cast<const float*>(args.out) +
                     (int64_t{row.row} * args.num_heads + head) * args.head_dim;
  const float mean = Dot(DOut(args, row.row, head), out, args.head_dim);
  if (threadIdx.x % kWarpThreads != 0) return;
  params.log_sums[unit] = maximum + logf(sum);
  params.means[unit] = mean;
}

// The softmax's weight of a key for a query, and the gradient of their product.
__device__ float2 WeightAndGradient(const Params& params, int query, const KeyValue& at, int head) {
  const AttentionBackwardArgs& args = params.args;
  const int stat = head * args.num_rows + query;
  const float score = args.scale * Dot(HeadOf(args, query, head), at.key, args.head_dim);
  const float weight = expf(score - params.log_sums[stat]);
  const float worth = Dot(DOut(args, query, head), at.value, args.head_dim);
  return {weight, weight * (worth - params.means[stat]) * args.scale};
}

constexpr int kLaneDims = 8;  // heads of up to 256

__global__ void __launch_bounds__(kThreads) QueriesKernel(const __grid_constant__ Params params) {
  WaitForPrevious();
  const AttentionBackwardArgs& args = params.args;
  const int unit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (unit >= args.num_rows * args.num_heads) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int head = unit / args.num_rows;
  const Row row(args, unit % args.num_rows);
  float sums[kLaneDims] = {};
  ForEachKey(args, row, head / params.group, [&](const KeyValue& at) {
    const float gradient = WeightAndGradient(params, row.row, at, head).y;
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) {
      const int dim = lane + 32 * i;
      if (dim < args.head_dim) sums[i] = __fmaf_rn(gradient, at.key[dim], sums[i]);
    }
  });
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) {
    if (lane + 32 * i < args.head_dim) DHead(args, row.row, head)[lane + 32 * i] = sums[i];
  }
}

// The gradients of a key and its value, by the queries of all heads of its group, this lane's
// dimensions.
__device__ void SumQueries(const Params& params, int begin, int end, const KeyValue& at,
                           int kv_head, float (&keys)[kLaneDims], float (&values)[kLaneDims]) {
  const AttentionBackwardArgs& args = params.args;
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  for (int head = kv_head * params.group; head < (kv_head + 1) * params.group; ++head) {
    for (int query = begin; query < end; ++query) {
      const float2 w = WeightAndGradient(params, query, at, head);
      const float* q = HeadOf(args, query, head);
      const float* d = DOut(args, query, head);
#pragma unroll
      for (int i = 0; i < kLaneDims; ++i) {
        const int dim = lane + 32 * i;
        if (dim >= args.head_dim) continue;
        values[i] = __fmaf_rn(w.x, d[dim], values[i]);
        keys[i] = __fmaf_rn(w.y, q[dim], keys[i]);
      }
    }
  }
}

__device__ void StoreLane(const float (&sums)[kLaneDims], int head_dim, float* out) {
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) {
    const int dim = static_cast<int>(threadIdx.x) % kWarpThreads + 32 * i;
    if (dim < head_dim) out[dim] = sums[i];
  }
}

__global__ void __launch_bounds__(kThreads) KeysKernel(const __grid_constant__ Params params) {
  WaitForPrevious();
  const AttentionBackwardArgs& args = params.args;
  const int unit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (unit >= args.num_rows * args.num_kv_heads) return;
  const int kv_head = unit / args.num_rows;
  const Row row(args, unit % args.num_rows);
  float keys[kLaneDims] = {}, values[kLaneDims] = {};
  SumQueries(params, row.row, row.end, OwnKey(args, row.row, kv_head), kv_head, keys, values);
  StoreLane(keys, args.head_dim, DHead(args, row.row, args.num_heads + kv_head));
  StoreLane(values, args.head_dim,
            DHead(args, row.row, args.num_heads + args.num_kv_heads + kv_head));
}

// A warp per sequence, head and position of the longest prefix.
__global__ void __launch_bounds__(kThreads) PrefixKernel(const __grid_constant__ Params params) {
  WaitForPrevious();
  const AttentionBackwardArgs& args = params.args;
  const int unit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int token = unit % args.prefix_tokens_max;
  const int kv_head = unit / args.prefix_tokens_max % args.num_kv_heads;
  const int sequence = unit / args.prefix_tokens_max / args.num_kv_heads;
  if (sequence >= args.num_sequences) return;
  const AttentionPrefix prefix = args.prefixes[sequence];
  if (token >= prefix.num_tokens) return;
  float keys[kLaneDims] = {}, values[kLaneDims] = {};
  SumQueries(params, args.row_begin[sequence], args.row_begin[sequence + 1],
             PrefixKey(args, prefix, token, kv_head), kv_head, keys, values);
  float* const out =
      prefix.d_keys_values + (int64_t{2} * args.num_kv_heads * token + kv_head) * args.head_dim;
  StoreLane(keys, args.head_dim, out);
  StoreLane(values, args.head_dim, out + int64_t{args.num_kv_heads} * args.head_dim);
}

// A thread per pair of dimensions of a query or key head.
__global__ void __launch_bounds__(kThreads) TurnBackKernel(const __grid_constant__ Params params) {
  WaitForPrevious();
  const AttentionBackwardArgs& args = params.args;
  const int half = args.head_dim / 2;
  const int64_t pairs = int64_t{args.num_heads + args.num_kv_heads} * half;
  const int64_t unit = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (unit >= args.num_rows * pairs) return;
  const auto row = static_cast<int>(unit / pairs);
  const auto pair = static_cast<int>(unit % pairs);
  float* x = DHead(args, row, pair / half) + pair % half;
  const int64_t angle = int64_t{args.positions[row]} * half + pair % half;
  RotatePair(args.cos[angle], args.back_sin[angle], x, x + half);
}

void LaunchPlain(const Params& params, Stream& stream) {
  const AttentionBackwardArgs& args = params.args;
  CHECK(args.dtype == DType::kF32) << DTypeName(args.dtype);
  CHECK_LE(args.head_dim, kLaneDims * kWarpThreads);
  const auto launch = [&](void (*kernel)(Params), int64_t units, int64_t per_block) {
    LaunchKernel(kernel, GridOf(CeilDiv(units, per_block)), dim3(kThreads), 0, CudaStreamOf(stream),
                 params);
  };
  const int64_t queries = int64_t{args.num_rows} * args.num_heads;
  launch(StatsKernel, queries, kWarps);
  launch(QueriesKernel, queries, kWarps);
  launch(KeysKernel, int64_t{args.num_rows} * args.num_kv_heads, kWarps);
  if (args.prefixes != nullptr) {
    launch(PrefixKernel, int64_t{args.num_sequences} * args.num_kv_heads * args.prefix_tokens_max,
           kWarps);
  }
  const int64_t pairs = int64_t{args.num_heads + args.num_kv_heads} * (args.head_dim / 2);
  launch(TurnBackKernel, args.num_rows * pairs, kThreads);
}

bool TakesTensorCores(const Params& params) {
  const AttentionBackwardArgs& args = params.args;
  if (args.dtype == DType::kF32) return false;
  CHECK(IsVectorAligned(args.qkv) && IsVectorAligned(args.qkv_stride * 2) &&
        IsVectorAligned(args.scratch) && IsVectorAligned(args.d_out));
  return true;
}

constexpr KernelRow<Params> kKernels[] = {{"tensor-cores",
                                           "bf16; heads of 64 and 128",
                                           {.hopper_code = true},
                                           TakesTensorCores,
                                           LaunchTensorCores},
                                          {"plain", "fp32", {}, nullptr, LaunchPlain}};

}  // namespace
}  // namespace attention_backward

void TellAttentionBackwardKernels(KernelList* list) {
  TellKernels("attention_backward", attention_backward::kKernels, list);
}

void AttentionBackwardCuda(const AttentionBackwardArgs& args, Stream& stream) {
  constexpr double kLog2E = 1.4426950408889634;
  const int64_t stats = int64_t{args.num_rows} * args.num_heads;
  attention_backward::Params params{
      .args = args,
      .log_sums = args.scratch,
      .means = args.scratch + stats,
      .rounds = args.d_dtype != args.dtype,
      .d_rounded = reinterpret_cast<Bfloat16*>(args.scratch + (2 * stats + 3) / 4 * 4),
      .scale_log2 = static_cast<float>(static_cast<double>(args.scale) * kLog2E),
      .group = args.num_heads / args.num_kv_heads};
  if (!params.rounds) params.d_rounded = static_cast<Bfloat16*>(const_cast<void*>(args.d_out));
  ChooseKernel(attention_backward::kKernels, params, TraitsOf(stream.device))
      .launch(params, stream);
}

}  // namespace graft
