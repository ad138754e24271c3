// VirtualGradient: the gradients of an adapter's virtual tokens: the sums over its sequences, in
// their order, of the gradients of the rows that the tokens became. An adapter's are the same bits
// whatever other adapters there are.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

// gradient[token * gradient_stride + gradient_offset + j] += sum over i in [place_begin, place_end)
// of scale * x[(places[i] + token) * n + j], for each of the tokens and n columns.
struct VirtualGradientItem {
  float* gradient = nullptr;
  int32_t num_tokens = 0;
  int32_t place_begin = 0;
  int32_t place_end = 0;
};

struct VirtualGradientArgs {
  // [num_items], in the device's memory; no two have one gradient.
  const VirtualGradientItem* items = nullptr;
  int32_t num_items = 0;
  int32_t num_tokens_max = 0;       // of an item
  const int32_t* places = nullptr;  // rows of x, of all items; in the device's memory
  const float* x = nullptr;         // [rows, n]
  int64_t n = 0;
  int64_t gradient_stride = 0;
  int64_t gradient_offset = 0;
  float scale = 1.0f;  // what the model multiplies rows by before its first layer
};

void VirtualGradient(const VirtualGradientArgs& args, Stream& stream);

}  // namespace graft
