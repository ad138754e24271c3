#include "kernels/lora/lora.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_CPU_OP(LoraShrink, LoraArgs)
GRAFT_CPU_OP(LoraExpand, LoraArgs)

namespace {

void CheckArgs(const LoraArgs& args, Stream& stream) {
  CHECK(stream.device.is_cpu()) << stream.device.ToString();
  CHECK(args.dtype == DType::kF32 || args.dtype == DType::kBF16) << DTypeName(args.dtype);
  CHECK(args.num_slices >= 1 && args.num_slices <= kLoraSlicesMax) << args.num_slices;
  CHECK_GE(args.num_segments, 0);
  int32_t row = 0;
  for (int32_t i = 0; i < args.num_segments; ++i) {
    const LoraSegment& segment = args.segments[i];
    CHECK(row <= segment.row_begin && segment.row_begin <= segment.row_end &&
          segment.row_end <= args.num_rows)
        << "segment " << i << ": rows [" << segment.row_begin << ", " << segment.row_end << ") of "
        << args.num_rows << " after row " << row;
    row = segment.row_end;
    if (segment.row_begin == segment.row_end) continue;
    for (int32_t s = 0; s < args.num_slices; ++s) {
      const int32_t rank = args.matrices[segment.adapter_slot * args.matrices_stride + s].rank;
      CHECK(rank >= 0 && rank <= kLoraRankMax && rank <= args.h_stride)
          << "rank " << rank << ", room for " << args.h_stride;
    }
  }
}

}  // namespace

void LoraShrink(const LoraArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  LoraShrinkCpu(args, stream);
}

void LoraExpand(const LoraArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  LoraExpandCpu(args, stream);
}

}  // namespace graft
