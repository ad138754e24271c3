// The weights of one layer, on the device that serves, in the layouts that kernels want.
// Projections that share an input are stacked (q, k, v; gate, up) so that each is one GEMM.
// Immutable once made; any thread.
#pragma once

#include "kernels/gemm/gemm.h"
#include "tensor/buffer.h"

namespace graft {

// The projections of a layer, which adapters change.
struct LayerProjections {
  GemmWeight qkv;      // [q + k + v, hidden]
  GemmWeight o;        // [hidden, q]
  GemmWeight gate_up;  // [ModelShape::gate_up_size, hidden]
  GemmWeight down;     // [hidden, intermediate]
};

// Biases and norms that the architecture does not have are empty: data() is null.
struct LayerWeights : LayerProjections {
  // fp32 [ModelShape::norm_size], where LayerSpec::input_norms, output_norms
  Buffer attention_norm;
  Buffer attention_output_norm;
  Buffer qkv_bias;  // fp32
  Buffer q_norm;    // fp32 [head_dim], or [q] where qk_norm_across_heads
  Buffer k_norm;
  Buffer o_bias;
  Buffer mlp_norm;         // as attention's; none where LayerSpec::shares_norm
  Buffer mlp_output_norm;  // as attention's
  Buffer gate_up_bias;
  Buffer down_bias;
};

}  // namespace graft
