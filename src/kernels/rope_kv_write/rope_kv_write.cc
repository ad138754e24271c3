#include "kernels/rope_kv_write/rope_kv_write.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/common/parallel_rows.h"
#include "kernels/kv_write/kv_write.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"

namespace graft {

void RopeKvWriteCuda(const RopeKvWriteArgs& args, Stream& stream);

namespace {

void CheckArgs(const RopeKvWriteArgs& args, const Stream& stream) {
  const KvLayout& layout = args.layout;
  CHECK_GE(args.num_rows, 0);
  CHECK(args.num_q_heads > 0 && layout.num_kv_heads > 0 && layout.page_tokens > 0);
  CHECK_GT(layout.head_dim, 0);
  CHECK_EQ(layout.head_dim % 2, 0) << "halves are rotated against each other";
  CHECK(args.rotary_dim > 0 && args.rotary_dim <= layout.head_dim &&
        (args.rotary_dim == layout.head_dim || args.rotary_dim % 8 == 0))
      << "rotary_dim " << args.rotary_dim << " of " << layout.head_dim;
  CHECK(stream.device.is_cpu() || layout.head_dim <= kAttentionHeadDimMax) << layout.head_dim;
  CHECK(args.layer >= 0 && args.layer < layout.num_layers)
      << "layer " << args.layer << " of " << layout.num_layers;
  CHECK((args.q_norm_weight == nullptr) == (args.k_norm_weight == nullptr));
  CHECK(args.unnormed == nullptr || args.q_norm_weight != nullptr) << "there are no norms";
  if (args.num_rows == 0) return;
  CHECK(args.qkv != nullptr && args.positions != nullptr && args.pool != nullptr);
  CHECK(args.cos != nullptr && args.sin != nullptr);
  CHECK(args.row_page != nullptr && args.row_slot != nullptr);
  CHECK_GE(args.row_stride, int64_t{args.num_q_heads + 2 * layout.num_kv_heads} * layout.head_dim);
}

void NormHeads(const RopeKvWriteArgs& args, float* x, const float* weight, int32_t num_heads,
               Stream& stream) {
  RmsNorm({.x = x,
           .x_stride = args.row_stride,
           .weight = weight,
           .out = x,
           .out_stride = args.row_stride,
           .num_tokens = args.num_rows,
           .num_heads = num_heads,
           .n = args.layout.head_dim,
           .epsilon = args.norm_epsilon},
          stream);
}

// As Ministral 3 has it, in the order of a GPU's kernel: before the rotation.
void ScaleQueries(const RopeKvWriteArgs& args, Stream& stream) {
  const int64_t n = int64_t{args.num_q_heads} * args.layout.head_dim;
  const int64_t bytes = 2 * n * int64_t{sizeof(float)};
  ParallelRows(args.num_rows, bytes, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float scale = args.query_scale[args.positions[row]];
      float* const q = args.qkv + row * args.row_stride;
      for (int64_t i = 0; i < n; ++i) q[i] *= scale;
    }
  });
}

void KeepUnnormed(const RopeKvWriteArgs& args, Stream& stream) {
  const int64_t n = int64_t{args.num_q_heads + args.layout.num_kv_heads} * args.layout.head_dim;
  const int64_t bytes = n * int64_t{sizeof(float)};
  auto* const kept = static_cast<float*>(args.unnormed);
  ParallelRows(args.num_rows, 2 * bytes, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(kept + row * n, args.qkv + row * args.row_stride, static_cast<size_t>(bytes));
    }
  });
}

void CopyAsInPages(const RopeKvWriteArgs& args, Stream& stream) {
  const KvLayout& layout = args.layout;
  const int64_t num_queries = int64_t{args.num_q_heads} * layout.head_dim;
  const int64_t num_others = int64_t{2} * layout.num_kv_heads * layout.head_dim;
  const int64_t n = num_queries + num_others;
  ParallelRows(
      args.num_rows, 2 * n * int64_t{sizeof(float)}, stream, [&](int64_t begin, int64_t end) {
        std::vector<char> rounded(static_cast<size_t>(num_others * DTypeBytes(layout.dtype)));
        for (int64_t row = begin; row < end; ++row) {
          const float* const from = args.qkv + row * args.row_stride;
          float* const to = static_cast<float*>(args.copy) + row * n;
          std::copy_n(from, num_queries, to);
          ConvertElements(DType::kF32, from + num_queries, layout.dtype, rounded.data(),
                          num_others);
          ConvertElements(layout.dtype, rounded.data(), DType::kF32, to + num_queries, num_others);
        }
      });
}

void RopeKvWriteCpu(const RopeKvWriteArgs& args, Stream& stream) {
  const int32_t num_kv_heads = args.layout.num_kv_heads;
  float* k = args.qkv + int64_t{args.num_q_heads} * args.layout.head_dim;
  if (args.q_norm_weight != nullptr) {
    if (args.unnormed != nullptr) KeepUnnormed(args, stream);
    NormHeads(args, args.qkv, args.q_norm_weight, args.num_q_heads, stream);
    NormHeads(args, k, args.k_norm_weight, num_kv_heads, stream);
  }
  if (args.query_scale != nullptr) ScaleQueries(args, stream);
  Rope({.x = args.qkv,
        .x_stride = args.row_stride,
        .num_tokens = args.num_rows,
        .num_heads = args.num_q_heads + num_kv_heads,
        .head_dim = args.layout.head_dim,
        .rotary_dim = args.rotary_dim,
        .positions = args.positions,
        .cos = args.cos,
        .sin = args.sin,
        .interleaved = args.interleaved},
       stream);
  KvWrite({.layout = args.layout,
           .layer = args.layer,
           .pool = args.pool,
           .k = k,
           .v = k + int64_t{num_kv_heads} * args.layout.head_dim,
           .row_stride = args.row_stride,
           .row_page = args.row_page,
           .row_slot = args.row_slot,
           .num_rows = args.num_rows},
          stream);
  if (args.copy != nullptr) CopyAsInPages(args, stream);
}

}  // namespace

void RopeKvWrite(const RopeKvWriteArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  if (stream.device.is_cpu()) return RopeKvWriteCpu(args, stream);
  if constexpr (kHasCuda) RopeKvWriteCuda(args, stream);
}

}  // namespace graft
