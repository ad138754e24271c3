#include "kernels/lora/lora.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_OP(LoraShrink, LoraArgs)
GRAFT_OP(LoraExpand, LoraArgs)

namespace {

// The contents of a GPU's arrays cannot be checked here.
void CheckSegments(const LoraArgs& args) {
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

void CheckArgs(const LoraArgs& args, Stream& stream) {
  CHECK(args.dtype != DType::kF16 || !stream.device.is_cpu()) << DTypeName(args.dtype);
  CHECK(args.num_slices >= 1 && args.num_slices <= kLoraSlicesMax) << args.num_slices;
  CHECK_GE(args.num_segments, 0);
  CHECK(stream.device.is_cpu() || args.dtype == DType::kF32 || !args.x_is_fp32);
  if (stream.device.is_cpu()) CheckSegments(args);
  if (args.activated == nullptr) return;
  CHECK(!stream.device.is_cpu()) << "an activation on the CPU";
  CHECK(args.num_slices == 2 && args.slice_begin[0] == 0 && args.slice_n[0] == args.slice_n[1] &&
        args.slice_begin[1] == args.slice_n[0] && args.y_stride == 2 * args.slice_n[0])
      << "an activation of slices that are no halves of y";
}

}  // namespace

void LoraShrink(const LoraArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  LoraShrinkOnDevice(args, stream);
}

void LoraExpand(const LoraArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  LoraExpandOnDevice(args, stream);
}

void Lora(const LoraArgs& args, Stream& stream) {
  CheckArgs(args, stream);
  LoraShrinkOnDevice(args, stream);
  LoraExpandOnDevice(args, stream);
}

}  // namespace graft
