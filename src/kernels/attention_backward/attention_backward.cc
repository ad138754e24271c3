#include "kernels/attention_backward/attention_backward.h"

#include "base/check.h"
#include "kernels/attention_backward/attention_backward_scratch.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_CPU_OP(AttentionBackward, AttentionBackwardArgs)

int64_t AttentionBackwardFloats(int32_t positions_max, int32_t head_dim, int num_threads) {
  return AttentionBackwardThreadFloats(positions_max, head_dim) * num_threads;
}

void AttentionBackward(const AttentionBackwardArgs& args, Stream& stream) {
  CHECK(stream.device.is_cpu()) << "no kernel for " << stream.device.ToString();
  CHECK_GE(args.num_sequences, 0);
  if (args.num_sequences == 0) return;
  CHECK(args.num_kv_heads > 0 && args.num_heads % args.num_kv_heads == 0) << args.num_heads;
  CHECK_GT(args.head_dim, 0);
  CHECK_GE(args.qkv_stride, int64_t{args.num_heads + 2 * args.num_kv_heads} * args.head_dim);
  CHECK(args.row_begin != nullptr && args.qkv != nullptr && args.d_out != nullptr &&
        args.d_qkv != nullptr && args.scratch != nullptr);
  for (int32_t i = 0; args.prefixes != nullptr && i < args.num_sequences; ++i) {
    const AttentionPrefix& prefix = args.prefixes[i];
    CHECK_GE(prefix.num_tokens, 0);
    if (prefix.num_tokens == 0) continue;
    CHECK(prefix.keys_values != nullptr && prefix.d_keys_values != nullptr);
    CHECK_GE(prefix.stride, int64_t{2 * args.num_kv_heads} * args.head_dim);
  }
  AttentionBackwardCpu(args, stream);
}

}  // namespace graft
