#include "kernels/scaled_add/scaled_add.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(ScaledAdd, ScaledAddArgs)

void ScaledAdd(const ScaledAddArgs& args, Stream& stream) {
  CHECK_GE(args.n, 0);
  if (args.n == 0) return;
  CHECK(args.x != nullptr && args.y != nullptr);
  if (args.accumulate) {
    CHECK(args.y_dtype == DType::kF32) << "sums are fp32";
    CHECK(args.y != args.x) << "accumulate in place";
  }
  if (args.y == args.x) {
    CHECK(args.y_dtype == DType::kF32) << "in place the elements keep their size";
  }
  ScaledAddOnDevice(args, stream);
}

}  // namespace graft
