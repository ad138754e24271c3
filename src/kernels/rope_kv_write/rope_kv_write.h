// What stands between the qkv projection and attention, in one launch on a GPU: RMSNorm of every
// query and key head where the model has one, rotation of queries and keys in place, keys
// and values to their pages. On the CPU it is RmsNorm, Rope and KvWrite one after the other.
#pragma once

#include <cstdint>

#include "kernels/common/kv_layout.h"
#include "tensor/stream.h"

namespace graft {

// On a GPU what is neither qkv nor the pool may be read while earlier kernels of the stream still
// run: write it with copies, or in a graph launched before.
struct RopeKvWriteArgs {
  // [num_rows, num_q_heads + 2 * num_kv_heads, head_dim] of queries, keys, values; rows row_stride
  // elements apart. Queries and keys become what attention wants; values stay.
  float* qkv = nullptr;
  int64_t row_stride = 0;
  int32_t num_rows = 0;
  int32_t num_q_heads = 0;
  const float* q_norm_weight = nullptr;  // [head_dim]; null, like k's: heads are not normalised
  const float* k_norm_weight = nullptr;
  float norm_epsilon = 1e-5f;
  const int32_t* positions = nullptr;  // [num_rows]
  // The first dimensions of a head, which rotate: even, and where others stay behind them, a
  // multiple of 8.
  int32_t rotary_dim = 0;
  bool interleaved = false;    // RopeArgs::interleaved
  const float* cos = nullptr;  // [positions_max, rotary_dim / 2]
  const float* sin = nullptr;  // [positions_max, rotary_dim / 2]
  // [positions_max], or null: what queries are multiplied by beside.
  const float* query_scale = nullptr;
  KvLayout layout;  // also says num_kv_heads and head_dim (even; <= 256 on a GPU)
  int32_t layer = 0;
  void* pool = nullptr;
  const int32_t* row_page = nullptr;  // [num_rows]; below 0: the row's keys and values go nowhere
  const int32_t* row_slot = nullptr;  // [num_rows] position within the page
  // As qkv without gaps, or null: what qkv has become, for a backward. A GPU rounds it to
  // layout.dtype. On the CPU it is fp32, and only keys and values are rounded, as in their pages.
  void* copy = nullptr;
  // [num_rows, num_q_heads + num_kv_heads, head_dim] without gaps, or null: queries and keys as the
  // norms took them, for a backward. A GPU rounds them to layout.dtype; on the CPU they are fp32.
  // It must be null where there are no norms.
  void* unnormed = nullptr;
};

void RopeKvWrite(const RopeKvWriteArgs& args, Stream& stream);

}  // namespace graft
