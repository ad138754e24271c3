#include "kernels/gated_activation_backward/gated_activation_backward.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(GatedActivationBackward, GatedActivationBackwardArgs)

void GatedActivationBackward(const GatedActivationBackwardArgs& args, Stream& stream) {
  CHECK(!stream.device.is_cpu() || args.dtype == DType::kF32) << DTypeName(args.dtype);
  CHECK(args.d_dtype == DType::kF32 || args.d_dtype == args.dtype);
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK_GT(args.n, 0);
  CHECK(args.activation == Activation::kSilu || args.activation == Activation::kGeluTanh);
  CHECK(args.gate_up != nullptr && args.d_out != nullptr && args.d_gate_up != nullptr);
  GatedActivationBackwardOnDevice(args, stream);
  if (!stream.device.is_cpu() || args.activated == nullptr) return;
  GatedActivation({.activation = args.activation,
                   .gate_up = static_cast<const float*>(args.gate_up),
                   .out = args.activated,
                   .num_tokens = args.num_rows,
                   .n = args.n},
                  stream);
}

}  // namespace graft
