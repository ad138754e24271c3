#include "kernels/lora_gradient/lora_gradient.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_CPU_OP(LoraGradient, LoraGradientArgs)

void LoraGradient(const LoraGradientArgs& args, Stream& stream) {
  CHECK(stream.device.is_cpu()) << "no kernel for " << stream.device.ToString();
  CHECK_GE(args.num_segments, 0);
  if (args.num_segments == 0) return;
  CHECK(args.segments != nullptr && args.h != nullptr && args.x != nullptr);
  CHECK_GT(args.n, 0);
  CHECK_GE(args.x_stride, args.n);
  for (int32_t i = 0; i < args.num_segments; ++i) {
    const LoraGradientSegment& segment = args.segments[i];
    CHECK(segment.row_begin >= 0 && segment.row_begin <= segment.row_end);
    CHECK(segment.rank == 0 || segment.gradient != nullptr);
    CHECK_LE(segment.rank, args.h_stride);
  }
  LoraGradientCpu(args, stream);
}

}  // namespace graft
