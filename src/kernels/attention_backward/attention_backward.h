// The gradient of causal attention over whole sequences, each from its position 0 or behind a
// prefix of keys and values, with grouped query heads, an optional sliding window and an optional
// cap on scores. Scores are computed again, so that the forward need not keep them. With a window,
// keys that no row sees cost nothing. A sequence's result is the same bits whatever other sequences
// there are.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// Keys and values that stand before a sequence's own rows and are seen by all of them.
struct AttentionPrefix {
  int32_t num_tokens = 0;
  // [num_tokens] positions, `stride` elements apart, each [2 (k, v)][num_kv_heads][head_dim] as
  // attention took it, of dtype. In bf16 with heads by eights each is on a border of 16 bytes.
  const void* keys_values = nullptr;
  int64_t stride = 0;
  float* d_keys_values = nullptr;  // [num_tokens][2][num_kv_heads][head_dim]; is written
};

struct AttentionBackwardArgs {
  const int32_t* row_begin = nullptr;  // [num_sequences + 1]
  int32_t num_sequences = 0;
  int32_t num_heads = 0;  // a multiple of num_kv_heads
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  float scale = 0.0f;      // of scores, as AttentionArgs has it, and so are the next two
  float score_cap = 0.0f;  // 0: none
  // 0: full; w: a row at position p sees (p - w, p]. Positions of a sequence count from the first
  // one of its prefix.
  int32_t window = 0;
  DType dtype = DType::kF32;  // bf16 on GPUs alone, see CheckAttentionBackward
  // [rows, num_heads + 2 num_kv_heads, head_dim] of dtype: queries, keys and values as attention
  // took them; rows qkv_stride elements apart. d_qkv is written in the same form.
  const void* qkv = nullptr;
  int64_t qkv_stride = 0;
  const void* d_out = nullptr;  // [rows, num_heads * head_dim] of d_dtype
  DType d_dtype = DType::kF32;  // or dtype
  void* d_qkv = nullptr;
  // [num_sequences]; null: no sequence has one.
  const AttentionPrefix* prefixes = nullptr;
  float* scratch = nullptr;  // [AttentionBackwardFloats]

  // For GPUs only, because the arrays are in the device's memory and the host cannot look.
  int32_t num_rows = 0;           // row_begin[num_sequences]
  int32_t sequence_rows_max = 0;  // of one sequence
  int32_t prefix_tokens_max = 0;  // of one prefix
  const void* out = nullptr;      // what attention made: [rows, num_heads * head_dim] of dtype

  // Queries and keys were turned by RopeArgs' numbers; what is written is turned back by the sines
  // of turns back. [rows], and [positions_max, rotary_dim / 2] each. cos null: they were not
  // turned.
  int32_t rotary_dim = 0;    // even, at most head_dim; 0: all of it
  bool interleaved = false;  // RopeArgs::interleaved
  const int32_t* positions = nullptr;
  const float* cos = nullptr;
  const float* back_sin = nullptr;
  // [positions_max], or null: what queries were multiplied by before they were turned, and their
  // gradients are once these are turned back.
  const float* query_scale = nullptr;
};

// kUnimplemented where there is no kernel of this type for such heads: GPUs have fp32 and bf16 for
// even sizes up to 256, the CPU has fp32 for all.
Status CheckAttentionBackward(DType dtype, int32_t head_dim, const Device& device);

// Floats of scratch on the CPU. `positions_max`: the most of a sequence, with its prefix.
int64_t AttentionBackwardFloats(int32_t positions_max, int32_t head_dim, int num_threads);
// Floats of scratch on a GPU, for a batch of `num_rows` rows.
int64_t AttentionBackwardGpuFloats(int32_t num_rows, int32_t num_heads, int32_t head_dim,
                                   DType dtype);

void AttentionBackward(const AttentionBackwardArgs& args, Stream& stream);

}  // namespace graft
