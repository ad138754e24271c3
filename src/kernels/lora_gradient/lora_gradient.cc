#include "kernels/lora_gradient/lora_gradient.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/common/parallel_rows.h"
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

void RoundRow(const LoraGradientRoundArgs& args, int64_t row) {
  const int64_t ranks = LoraGradientRankStride(args.rank_max);
  float* out = static_cast<float*>(args.out) + row * args.num_slices * ranks;
  for (int32_t slice = 0; slice < args.num_slices; ++slice, out += ranks) {
    const float* const from = args.h + slice * args.h_slice + row * args.h_stride;
    std::fill_n(out, ranks, 0.0f);
    for (int32_t part = 0; part < args.num_parts; ++part) {
      for (int32_t j = 0; j < args.rank_max; ++j) out[j] += from[part * args.part + j];
    }
  }
}

void LoraGradientRoundCpu(const LoraGradientRoundArgs& args, Stream& stream) {
  const int64_t row_bytes = int64_t{args.num_slices} * (args.num_parts + 1) * args.rank_max * 4;
  ParallelRows(args.num_rows, row_bytes, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) RoundRow(args, row);
  });
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
  CHECK(args.h != nullptr && args.out != nullptr && IsOnBorder(args.out));
  CHECK(args.num_rows > 0 && args.num_slices >= 1 && args.num_parts >= 1);
  CHECK(args.rank_max > 0 && args.rank_max <= args.h_stride);
  CHECK(args.dtype == DType::kF32 || (args.dtype == DType::kBF16 && !stream.device.is_cpu()))
      << DTypeName(args.dtype);
  if (stream.device.is_cpu()) return LoraGradientRoundCpu(args, stream);
  if constexpr (kHasCuda) LoraGradientRoundCuda(args, stream);
}

}  // namespace graft
