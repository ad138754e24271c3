#include "kernels/soft_cap/soft_cap.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(SoftCap, SoftCapArgs)

void SoftCap(const SoftCapArgs& args, Stream& stream) {
  CHECK_GE(args.n, 0);
  CHECK_GT(args.cap, 0.0f);
  if (args.n == 0) return;
  CHECK(args.x != nullptr);
  SoftCapOnDevice(args, stream);
}

}  // namespace graft
