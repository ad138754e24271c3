#include "kernels/lora_gradient/lora_gradient.h"

#include "base/check.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/lora_gradient/lora_gradient_work.h"

namespace graft {

GRAFT_OP(LoraGradient, LoraGradientArgs)

void LoraGradientRoundCuda(const LoraGradientRoundArgs& args, Stream& stream);

namespace {

bool IsOnBorder(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

void CheckOnHost(const LoraGradientArgs& args) {
  CHECK(args.dtype == DType::kF32) << DTypeName(args.dtype);
  for (int32_t i = 0; i < args.num_segments; ++i) {
    const LoraGradientSegment& segment = args.segments[i];
    CHECK(segment.row_begin >= 0 && segment.row_begin <= segment.row_end);
    CHECK(segment.rank == 0 || segment.gradient != nullptr);
    CHECK_LE(segment.rank, args.products[0].h_stride);
  }
}

void CheckOnGpu(const LoraGradientArgs& args) {
  CHECK(args.scratch != nullptr && args.counters != nullptr && args.num_rows > 0);
  CHECK_GT(args.rank_max, 0);
  CHECK(args.dtype == DType::kF32 || args.dtype == DType::kBF16) << DTypeName(args.dtype);
  const int64_t element = DTypeBytes(args.dtype);
  const int64_t ranks = LoraGradientRankStride(args.rank_max);
  for (int32_t i = 0; i < args.num_products; ++i) {
    const LoraGradientProduct& product = args.products[i];
    CHECK(IsOnBorder(product.h) && product.h_stride * element % 16 == 0);
    CHECK(product.num_matrices == 1 || product.h_matrix == ranks) << product.h_matrix;
    CHECK_GE(product.h_stride, product.num_matrices * ranks);
  }
}

}  // namespace

int64_t LoraGradientScratchFloats(const Device& device, int32_t num_rows, int32_t num_segments,
                                  int32_t rank_max, int64_t columns) {
  if (device.is_cpu()) return 0;
  return lora_gradient::NumParts(num_rows, num_segments) * rank_max * columns;
}

int64_t LoraGradientCounters(const Device& device, int32_t num_segments, int32_t rank_max,
                             int64_t columns) {
  if (device.is_cpu()) return 0;
  return lora_gradient::TilesMax(columns) * num_segments *
         lora_gradient::PlainGroups(kLoraGradientMatrices, rank_max);
}

void LoraGradient(const LoraGradientArgs& args, Stream& stream) {
  CHECK_GE(args.num_segments, 0);
  CHECK(args.num_products >= 1 && args.num_products <= kLoraGradientProducts) << args.num_products;
  if (args.num_segments == 0) return;
  CHECK(args.segments != nullptr);
  for (int32_t i = 0; i < args.num_products; ++i) {
    const LoraGradientProduct& product = args.products[i];
    CHECK(product.h != nullptr && product.x != nullptr && product.n > 0);
    CHECK_GE(product.x_stride, product.n);
    CHECK(product.num_matrices >= 1 && product.num_matrices <= kLoraGradientMatrices)
        << product.num_matrices;
  }
  if (stream.device.is_cpu()) {
    CheckOnHost(args);
  } else {
    CheckOnGpu(args);
  }
  LoraGradientOnDevice(args, stream);
}

void LoraGradientRound(const LoraGradientRoundArgs& args, Stream& stream) {
  CHECK(!stream.device.is_cpu()) << "h is taken as it is there";
  CHECK(args.h != nullptr && args.out != nullptr && IsOnBorder(args.out));
  CHECK(args.num_rows > 0 && args.num_slices >= 1 && args.num_parts >= 1);
  CHECK(args.rank_max > 0 && args.rank_max <= args.h_stride);
  CHECK(args.dtype == DType::kF32 || args.dtype == DType::kBF16) << DTypeName(args.dtype);
  if constexpr (kHasCuda) LoraGradientRoundCuda(args, stream);
}

}  // namespace graft
