// Rotary position embedding in place, HF's half-split convention: with h = rotary_dim / 2,
//   x[i], x[i + h] = x[i] cos - x[i + h] sin, x[i + h] cos + x[i] sin   for i < h.
// Interleaved, the pairs are neighbours instead: x[2 i], x[2 i + 1].
// What lies behind the first rotary_dim dimensions of a head stays. A turn back is the turn by the
// negated angles: the gradient by what was turned, from that by what came of it, with the tables of
// the forward (scaled ones, too).
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

struct RopeArgs {
  float* x = nullptr;  // [num_tokens, num_heads, head_dim], tokens x_stride elements apart
  int64_t x_stride = 0;
  int64_t num_tokens = 0;
  int32_t num_heads = 0;  // query and key heads, side by side
  int32_t head_dim = 0;
  int32_t rotary_dim = 0;              // even, at most head_dim
  const int32_t* positions = nullptr;  // [num_tokens]
  const float* cos = nullptr;          // [positions_max, rotary_dim / 2]
  const float* sin = nullptr;          // [positions_max, rotary_dim / 2]
  bool back = false;                   // turns back
  bool interleaved = false;
};

void Rope(const RopeArgs& args, Stream& stream);

}  // namespace graft
