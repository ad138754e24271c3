#include "kernels/activate_backward/activate_backward.h"

#include "base/check.h"
#include "kernels/activate/activate.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(ActivateBackward, ActivateBackwardArgs)

void ActivateBackward(const ActivateBackwardArgs& args, Stream& stream) {
  CHECK(!stream.device.is_cpu() || args.dtype == DType::kF32) << "on the CPU all is fp32";
  CHECK(args.d_dtype == DType::kF32 || args.d_dtype == args.dtype);
  CHECK_GE(args.n, 0);
  if (args.n == 0) return;
  CHECK(args.x != nullptr && args.d_out != nullptr && args.d_x != nullptr);
  CHECK(args.d_x != args.x && args.d_x != args.d_out) << "in place";
  ActivateBackwardOnDevice(args, stream);
  if (!stream.device.is_cpu() || args.activated == nullptr) return;
  Activate({.activation = args.activation,
            .x = static_cast<const float*>(args.x),
            .out = args.activated,
            .n = args.n},
           stream);
}

}  // namespace graft
