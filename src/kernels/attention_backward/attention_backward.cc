#include "kernels/attention_backward/attention_backward.h"

#include <string>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/attention_backward/attention_backward_scratch.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/common/parallel_rows.h"
#include "kernels/rope/rope.h"

namespace graft {

GRAFT_OP(AttentionBackward, AttentionBackwardArgs)

Status CheckAttentionBackward(DType dtype, int32_t head_dim, const Device& device) {
  const bool has_type = dtype == DType::kF32 || (dtype == DType::kBF16 && !device.is_cpu());
  const bool has_size = device.is_cpu() || (head_dim % 2 == 0 && head_dim <= kAttentionHeadDimMax);
  if (has_type && has_size) return OkStatus();
  return UnimplementedError("the backward of attention in " + std::string(DTypeName(dtype)) +
                            " has no kernel for heads of " + std::to_string(head_dim) + " on " +
                            device.ToString() + "; GPUs have fp32 and bf16 for even sizes up to " +
                            std::to_string(kAttentionHeadDimMax) + ", the CPU has fp32 for all");
}

int64_t AttentionBackwardFloats(int32_t positions_max, int32_t head_dim, int num_threads) {
  return AttentionBackwardThreadFloats(positions_max, head_dim) * num_threads;
}

int64_t AttentionBackwardGpuFloats(int32_t num_rows, int32_t num_heads, int32_t head_dim,
                                   DType dtype) {
  const int64_t rounded = dtype == DType::kF32 ? 0 : (head_dim + 1) / 2;
  return int64_t{num_rows} * num_heads * (2 + rounded) + 4;
}

namespace {

void CheckOnHost(const AttentionBackwardArgs& args) {
  CHECK(args.dtype == DType::kF32) << DTypeName(args.dtype);
  for (int32_t i = 0; args.prefixes != nullptr && i < args.num_sequences; ++i) {
    const AttentionPrefix& prefix = args.prefixes[i];
    CHECK_GE(prefix.num_tokens, 0);
    if (prefix.num_tokens == 0) continue;
    CHECK(prefix.keys_values != nullptr && prefix.d_keys_values != nullptr);
    CHECK_GE(prefix.stride, int64_t{2 * args.num_kv_heads} * args.head_dim);
  }
}

void CheckOnGpu(const AttentionBackwardArgs& args, const Device& device) {
  CHECK(CheckAttentionBackward(args.dtype, args.head_dim, device).ok());
  CHECK(args.prefixes == nullptr || args.prefix_tokens_max > 0);
  CHECK(args.out != nullptr && args.num_rows > 0 && args.sequence_rows_max > 0);
}

// Turns the gradients of queries and keys back.
void TurnBackOnHost(const AttentionBackwardArgs& args, Stream& stream) {
  Rope({.x = static_cast<float*>(args.d_qkv),
        .x_stride = args.qkv_stride,
        .num_tokens = args.row_begin[args.num_sequences],
        .num_heads = args.num_heads + args.num_kv_heads,
        .head_dim = args.head_dim,
        .rotary_dim = args.rotary_dim > 0 ? args.rotary_dim : args.head_dim,
        .positions = args.positions,
        .cos = args.cos,
        .sin = args.back_sin,
        .interleaved = args.interleaved},
       stream);
}

void ScaleQueriesOnHost(const AttentionBackwardArgs& args, Stream& stream) {
  const int64_t n = int64_t{args.num_heads} * args.head_dim;
  ParallelRows(args.row_begin[args.num_sequences], 2 * n * int64_t{sizeof(float)}, stream,
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const float scale = args.query_scale[args.positions[row]];
                   float* const d_q = static_cast<float*>(args.d_qkv) + row * args.qkv_stride;
                   for (int64_t i = 0; i < n; ++i) d_q[i] *= scale;
                 }
               });
}

}  // namespace

void AttentionBackward(const AttentionBackwardArgs& args, Stream& stream) {
  CHECK_GE(args.num_sequences, 0);
  if (args.num_sequences == 0) return;
  CHECK(args.num_kv_heads > 0 && args.num_heads % args.num_kv_heads == 0) << args.num_heads;
  CHECK_GT(args.head_dim, 0);
  CHECK_GE(args.window, 0);
  CHECK_GE(args.score_cap, 0.0f);
  CHECK(args.d_dtype == DType::kF32 || args.d_dtype == args.dtype);
  CHECK_GE(args.qkv_stride, int64_t{args.num_heads + 2 * args.num_kv_heads} * args.head_dim);
  CHECK(args.row_begin != nullptr && args.qkv != nullptr && args.d_out != nullptr &&
        args.d_qkv != nullptr && args.scratch != nullptr);
  CHECK(args.rotary_dim >= 0 && args.rotary_dim <= args.head_dim && args.rotary_dim % 2 == 0)
      << args.rotary_dim;
  if (args.cos != nullptr) CHECK(args.positions != nullptr && args.back_sin != nullptr);
  CHECK(args.query_scale == nullptr || args.positions != nullptr);
  if (stream.device.is_cpu()) {
    CheckOnHost(args);
  } else {
    CheckOnGpu(args, stream.device);
  }
  AttentionBackwardOnDevice(args, stream);
  if (!stream.device.is_cpu()) return;
  if (args.cos != nullptr) TurnBackOnHost(args, stream);
  if (args.query_scale != nullptr) ScaleQueriesOnHost(args, stream);
}

}  // namespace graft
