#include "kernels/row_sum/row_sum.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(RowSum, RowSumArgs)

void RowSum(const RowSumArgs& args, Stream& stream) {
  CHECK_GE(args.num_rows, 0);
  CHECK_GT(args.n, 0);
  if (args.num_rows == 0) return;
  CHECK(args.x != nullptr && args.sums != nullptr);
  RowSumOnDevice(args, stream);
}

}  // namespace graft
