// What the kernels of attention's backward share: their scratch, and which kernel makes which part
// of it.
#pragma once

#include <cstdint>

#include "kernels/attention_backward/attention_backward.h"

namespace graft::attention_backward {

// The arguments, and what the kernels compute from them. Each query of a head has two numbers: the
// logarithm of the sum of its scores' exponentials, in base 2 on the tensor cores; and the mean of
// its softmax weights' gradients, weighted by these weights.
struct Params {
  AttentionBackwardArgs args;
  float* log_sums;      // [num_heads, num_rows]
  float* means;         // [num_heads, num_rows]
  bool rounds;          // d_out is fp32, and dtype is not
  Bfloat16* d_rounded;  // d_out, or room for it, for the tensor cores
  float scale_log2;
  int group;  // query heads of a key head

  // For the kernels that take all models' attention. window: more than all positions where there is
  // none. A cap makes t = tanh(x) of x = scale q k / cap. cap_log2 t is its score times log2(e),
  // and 1 + curve t^2 the score's derivative by scale q k. Without a cap t is q k, and curve is
  // zero.
  int window;
  float cap_exponent;  // of 2^y = e^(2 x), y = cap_exponent q k; 0: no cap
  float cap_log2;
  float curve;
  int rotary_half;  // pairs of dimensions to turn back
};

#ifdef __CUDACC__
// What the gradient of a head of a row is multiplied by, beside being turned back.
__device__ __forceinline__ float QueryScaleOf(const AttentionBackwardArgs& args, int row,
                                              int head) {
  if (args.query_scale == nullptr || head >= args.num_heads) return 1.0f;
  return args.query_scale[args.positions[row]];
}
#endif

// bf16; needs rows on borders of 16 bytes, as TakesTensorCores says.
// Full attention without a cap, heads of 64 or 128, which are turned back as a whole.
void LaunchTensorCores(const Params& params, Stream& stream);
// On Hopper all else: windows, caps, rotary dimensions, neighbours that turn, and heads of up to
// 256 dimensions by eights.
void LaunchTensorGeneral(const Params& params, Stream& stream);
// The same and full attention on cards without Hopper's instructions.
void LaunchMma(const Params& params, Stream& stream);

}  // namespace graft::attention_backward
