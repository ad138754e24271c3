// The middle of a gated MLP: out = f(gate) * up. f is silu (SwiGLU), x / (1 + exp(-x)), or GELU by
// its tanh formula (GeGLU): x / 2 (1 + tanh(u)) = x / (1 + exp(-2 u)), where u is
// sqrt(2 / pi) (x + 0.044715 x^3).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// kGelu and kRelu are Activate's alone, of MLPs without a gate.
enum class Activation : uint8_t { kSilu, kGeluTanh, kGelu, kRelu };

struct GatedActivationArgs {
  Activation activation = Activation::kSilu;  // or kGeluTanh
  const float* gate_up = nullptr;             // [num_tokens, 2 n]: gate, then up
  void* out = nullptr;                        // [num_tokens, n] of out_dtype
  DType out_dtype = DType::kF32;
  int64_t num_tokens = 0;
  int64_t n = 0;
  // [num_tokens, 2 n] of out_dtype, or null: gate_up itself, rounded, for a backward.
  void* copy = nullptr;
};

void GatedActivation(const GatedActivationArgs& args, Stream& stream);

}  // namespace graft
