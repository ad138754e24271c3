// KvRows: keys and values of rows of a batch become those of virtual tokens that stand elsewhere,
// and the gradient of these goes back to the rows. A prefix that an encoder makes: the memory of
// 500xCompressor (Li et al.) and Activation Beacon (Zhang et al.). A key's turn by its position is
// linear in it, so a key moves by another turn. No two rows of a call have one token.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct KvRow {
  int32_t row = 0;         // of the batch
  int32_t from = 0;        // the row's position
  int32_t to = 0;          // the token's; may be below 0
  float* token = nullptr;  // its keys and values of the first layer
};

struct KvRowsArgs {
  const KvRow* rows = nullptr;  // [num_rows], in the device's memory
  int32_t num_rows = 0;
  int64_t token_offset =
      0;  // of the layer: token + token_offset is [2 (k, v)][num_kv_heads][head_dim]
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;    // even, at most head_dim
  bool interleaved = false;  // RopeArgs::interleaved
  // [positions_max, rotary_dim / 2], of length 1: angles must not be scaled. `to`, and the way from
  // `from` to `to`, are below positions_max.
  const float* cos = nullptr;
  const float* sin = nullptr;
  // [rows, stride] of dtype: keys from column key_column on, and values behind them.
  DType dtype = DType::kF32;  // bf16 on GPUs alone
  void* keys_values = nullptr;
  int64_t stride = 0;
  int64_t key_column = 0;
};

// token = the row's key, turned from `from` to `to`, and its value.
void TakeKvRows(const KvRowsArgs& args, Stream& stream);

// Adds the token's gradient to that of the row's value and of its key before that was turned.
void AddKvRows(const KvRowsArgs& args, Stream& stream);

}  // namespace graft
