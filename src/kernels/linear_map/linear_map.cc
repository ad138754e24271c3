#include "kernels/linear_map/linear_map.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(LinearMap, LinearMapArgs)
GRAFT_OP(LinearMapGradient, LinearMapGradientArgs)

void LinearMap(const LinearMapArgs& args, Stream& stream) {
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK(args.k > 0 && args.n > 0);
  CHECK(args.x != nullptr && args.map != nullptr && args.y != nullptr);
  LinearMapOnDevice(args, stream);
}

void LinearMapGradient(const LinearMapGradientArgs& args, Stream& stream) {
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK(args.k > 0 && args.n > 0);
  CHECK(args.x != nullptr && args.d_y != nullptr && args.d_map != nullptr);
  LinearMapGradientOnDevice(args, stream);
}

}  // namespace graft
