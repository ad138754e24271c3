#include "kernels/rms_norm_backward/rms_norm_backward.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_CPU_OP(RmsNormBackward, RmsNormBackwardArgs)

void RmsNormBackward(const RmsNormBackwardArgs& args, Stream& stream) {
  CHECK(stream.device.is_cpu()) << "no kernel for " << stream.device.ToString();
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK_GT(args.n, 0);
  CHECK(args.x != nullptr && args.weight != nullptr && args.d_out != nullptr &&
        args.d_x != nullptr);
  RmsNormBackwardCpu(args, stream);
}

}  // namespace graft
