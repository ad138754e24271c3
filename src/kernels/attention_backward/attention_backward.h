// The gradient of causal attention over whole sequences, each from its position 0 or behind a
// prefix of keys and values: scores are computed again, so that the forward need not keep them.
// CPU, fp32. A sequence's result is the same bits whatever other sequences there are.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

// Keys and values that stand before a sequence's own rows and are seen by all of them.
struct AttentionPrefix {
  int32_t num_tokens = 0;
  // [num_tokens] positions, `stride` elements apart, each [2 (k, v)][num_kv_heads][head_dim] as
  // attention took it.
  const float* keys_values = nullptr;
  int64_t stride = 0;
  float* d_keys_values = nullptr;  // [num_tokens][2][num_kv_heads][head_dim]; is written
};

struct AttentionBackwardArgs {
  const int32_t* row_begin = nullptr;  // [num_sequences + 1]
  int32_t num_sequences = 0;
  int32_t num_heads = 0;  // a multiple of num_kv_heads
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  float scale = 0.0f;  // of scores
  // [rows, num_heads + 2 num_kv_heads, head_dim] queries, keys and values as attention took them;
  // rows qkv_stride elements apart. Likewise what is written to d_qkv.
  const float* qkv = nullptr;
  int64_t qkv_stride = 0;
  const float* d_out = nullptr;  // [rows, num_heads * head_dim]
  float* d_qkv = nullptr;
  const AttentionPrefix* prefixes = nullptr;  // [num_sequences]; null: no sequence has one
  float* scratch = nullptr;                   // [AttentionBackwardFloats]
};

// `positions_max` of one sequence, its prefix and its rows.
int64_t AttentionBackwardFloats(int32_t positions_max, int32_t head_dim, int num_threads);

void AttentionBackward(const AttentionBackwardArgs& args, Stream& stream);

}  // namespace graft
