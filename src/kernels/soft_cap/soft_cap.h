// Soft cap in place: x becomes cap * tanh(x / cap). What Gemma 2 does to its logits.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

struct SoftCapArgs {
  float* x = nullptr;  // [n]
  int64_t n = 0;
  float cap = 0.0f;  // above 0
};

void SoftCap(const SoftCapArgs& args, Stream& stream);

}  // namespace graft
