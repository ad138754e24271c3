#include "kernels/round_rows/round_rows.h"

#include "base/check.h"

namespace graft {

void RoundRowsCuda(const RoundRowsArgs& args, Stream& stream);

namespace {

void RoundRowsCpu(const RoundRowsArgs& args, Stream& stream) {
  stream.cpu_threads->ParallelFor(args.num_rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const RoundedRow& row = args.rows[i];
      ConvertElements(DType::kF32, args.x + row.begin, args.dtype, row.out, row.n);
    }
  });
}

}  // namespace

void RoundRows(const RoundRowsArgs& args, Stream& stream) {
  CHECK_GE(args.num_rows, 0);
  if (args.num_rows == 0) return;
  CHECK(args.x != nullptr && args.rows != nullptr);
  if (stream.device.is_cpu()) return RoundRowsCpu(args, stream);
  if constexpr (kHasCuda) RoundRowsCuda(args, stream);
}

}  // namespace graft
