#include "kernels/layer_norm_backward/layer_norm_backward.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/layer_norm/layer_norm.h"

namespace graft {

GRAFT_OP(LayerNormBackward, LayerNormBackwardArgs)

namespace {

void NormAgain(const LayerNormBackwardArgs& args, Stream& stream) {
  LayerNorm({.x = static_cast<const float*>(args.x),
             .weight = args.weight,
             .bias = args.bias,
             .out = args.normed,
             .num_rows = args.num_rows,
             .n = args.n,
             .epsilon = args.epsilon},
            stream);
}

void CheckArgs(const LayerNormBackwardArgs& args) {
  CHECK_GT(args.n, 0);
  CHECK_GE(args.epsilon, 0.0f);
  CHECK(args.x != nullptr && args.weight != nullptr && args.bias != nullptr);
  if (args.d_out == nullptr) {
    CHECK(args.normed != nullptr) << "nothing to compute";
    return;
  }
  CHECK(args.d_x != nullptr) << "no place for the gradient";
  CHECK(args.d_x != args.d_out && args.d_x_copy != args.d_out) << "in place";
}

}  // namespace

void LayerNormBackward(const LayerNormBackwardArgs& args, Stream& stream) {
  CHECK(!stream.device.is_cpu() || (args.x_dtype == DType::kF32 && args.d_dtype == DType::kF32))
      << "on the CPU all is fp32";
  CHECK(args.d_dtype == DType::kF32 || args.d_dtype == args.x_dtype);
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CheckArgs(args);
  if (!stream.device.is_cpu()) return LayerNormBackwardOnDevice(args, stream);
  if (args.normed != nullptr) NormAgain(args, stream);
  if (args.d_out != nullptr) LayerNormBackwardOnDevice(args, stream);
}

}  // namespace graft
