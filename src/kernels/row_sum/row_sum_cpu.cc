// Columns are shared out, and a task's sums stay in the first-level cache.
#include <algorithm>

#include "kernels/common/cpu_isa.h"
#include "kernels/common/parallel_rows.h"
#include "kernels/row_sum/row_sum.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int64_t kColumns = 512;  // of a task

}  // namespace

void RowSum(const RowSumArgs& args, Stream& stream) {
  const int64_t num_tasks = (args.n + kColumns - 1) / kColumns;
  const int64_t task_bytes = args.num_rows * kColumns * static_cast<int64_t>(sizeof(float));
  ParallelRows(num_tasks, task_bytes, stream, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(end * kColumns, args.n);
    for (int64_t row = 0; row < args.num_rows; ++row) {
      const float* const x = args.x + row * args.n;
      for (int64_t i = begin * kColumns; i < last; ++i) args.sums[i] += double{x[i]};
    }
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
