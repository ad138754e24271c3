#include "kernels/rms_norm_backward/rms_norm_backward.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(RmsNormBackward, RmsNormBackwardArgs)

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream& stream) {
  CHECK(!stream.device.is_cpu() ||
        (args.x_dtype == DType::kF32 && args.d_dtype == DType::kF32 && args.rows == nullptr &&
         args.d_x_copy == nullptr && args.normed == nullptr && args.d_out != nullptr))
      << "on the CPU all is fp32 and in place";
  CHECK(args.d_dtype == DType::kF32 || args.d_dtype == args.x_dtype);
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK_GT(args.n, 0);
  CHECK(args.x != nullptr && args.weight != nullptr);
  CHECK(args.d_out != nullptr ? args.d_x != nullptr : args.normed != nullptr);
  RmsNormBackwardOnDevice(args, stream);
}

}  // namespace graft
