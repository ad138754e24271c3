#include "kernels/activate/activate.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(Activate, ActivateArgs)

void Activate(const ActivateArgs& args, Stream& stream) {
  CHECK_GE(args.n, 0);
  if (args.n == 0) return;
  CHECK(args.x != nullptr && args.out != nullptr);
  CHECK(args.out != args.x && args.copy != args.x) << "in place";
  ActivateOnDevice(args, stream);
}

}  // namespace graft
