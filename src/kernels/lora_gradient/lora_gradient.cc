#include "kernels/lora_gradient/lora_gradient.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/lora_gradient/lora_gradient_work.h"

namespace graft {

GRAFT_OP(LoraGradient, LoraGradientArgs)

namespace {

void CheckOnHost(const LoraGradientArgs& args) {
  CHECK(args.num_h_parts == 1 && args.x_dtype == DType::kF32);
  for (int32_t i = 0; i < args.num_segments; ++i) {
    const LoraGradientSegment& segment = args.segments[i];
    CHECK(segment.row_begin >= 0 && segment.row_begin <= segment.row_end);
    CHECK(segment.rank == 0 || segment.gradient != nullptr);
    CHECK_LE(segment.rank, args.h_stride);
  }
}

}  // namespace

int64_t LoraGradientScratchFloats(const Device& device, int32_t num_rows, int32_t num_segments,
                                  int32_t rank_max, int64_t n) {
  if (device.is_cpu()) return 0;
  return lora_gradient::SumsBegin(num_rows, rank_max) +
         lora_gradient::NumParts(num_rows, num_segments) * rank_max * n;
}

void LoraGradient(const LoraGradientArgs& args, Stream& stream) {
  CHECK_GE(args.num_segments, 0);
  if (args.num_segments == 0) return;
  CHECK(args.segments != nullptr && args.h != nullptr && args.x != nullptr);
  CHECK_GT(args.n, 0);
  CHECK_GE(args.x_stride, args.n);
  if (stream.device.is_cpu()) {
    CheckOnHost(args);
  } else {
    CHECK(args.scratch != nullptr && args.num_rows > 0 && args.num_h_parts >= 1);
    CHECK(args.rank_max > 0 && args.rank_max <= args.h_stride);
    CHECK(args.x_dtype == DType::kF32 || args.x_dtype == DType::kBF16) << DTypeName(args.x_dtype);
  }
  LoraGradientOnDevice(args, stream);
}

}  // namespace graft
