#include "bench/lora_padded/lora_padded.h"

#include <cstring>

#include "base/check.h"
#include "bench/lora_padded/lora_padded_work.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

constexpr int64_t kCopyAlignment = 256;

int64_t AlignedCopy(int64_t bytes) {
  return (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

struct PaddedSizes {
  int64_t tables;
  int64_t matrices;
  int64_t segments;
};

PaddedSizes PaddedSizesOf(int64_t num_segments, int32_t num_slices, int32_t rank) {
  const int64_t pairs = num_segments * num_slices;
  return {AlignedCopy(pairs * 2 * rank * int64_t{sizeof(void*)}),
          AlignedCopy(pairs * int64_t{sizeof(LoraMatrix)}),
          AlignedCopy(num_segments * int64_t{sizeof(LoraSegment)})};
}

LoraPaddedWork LayOutPadded(const LoraPaddedArgs& args) {
  const LoraArgs& lora = args.lora;
  LoraPaddedWork work{.lora = lora, .rank = args.rank};
  work.a_row_bytes = AlignedCopy(lora.k * DTypeBytes(lora.dtype));
  for (int32_t s = 0; s < lora.num_slices; ++s) {
    work.slice_begin[s] = work.segment_bytes;
    work.b_row_bytes[s] = AlignedCopy(lora.slice_n[s] * DTypeBytes(lora.dtype));
    work.segment_bytes += args.rank * (work.a_row_bytes + work.b_row_bytes[s]);
  }
  const PaddedSizes sizes = PaddedSizesOf(lora.num_segments, lora.num_slices, args.rank);
  char* next = static_cast<char*>(args.scratch);
  work.segments = reinterpret_cast<LoraSegment*>(next);
  work.matrices = reinterpret_cast<LoraMatrix*>(next += sizes.segments);
  work.tables = reinterpret_cast<const void**>(next += sizes.matrices);
  work.rows = next + sizes.tables;
  return work;
}

// Row j of a side: the adapter's, or zeros.
void CopyPaddedRow(const void* const* rows, int32_t rank, int32_t j, int64_t bytes, char* to) {
  if (j < rank) {
    std::memcpy(to, rows[j], static_cast<size_t>(bytes));
  } else {
    std::memset(to, 0, static_cast<size_t>(bytes));
  }
}

void CopyPaddedSlice(const LoraPaddedWork& work, int64_t segment, int32_t s) {
  const LoraArgs& lora = work.lora;
  const LoraSegment& from = lora.segments[segment];
  LoraMatrix& copy = work.matrices[segment * lora.num_slices + s];
  copy = {};
  if (from.row_begin == from.row_end) return;
  const LoraMatrix& matrix = lora.matrices[from.adapter_slot * lora.matrices_stride + s];
  if (matrix.rank == 0) return;
  CHECK_LE(matrix.rank, work.rank);
  const void** table = work.tables + (segment * lora.num_slices + s) * 2 * work.rank;
  copy = {.a_rows = table, .b_rows = table + work.rank, .rank = work.rank, .scale = matrix.scale};
  char* a = work.rows + segment * work.segment_bytes + work.slice_begin[s];
  char* b = a + work.rank * work.a_row_bytes;
  const int64_t element_bytes = DTypeBytes(lora.dtype);
  for (int32_t j = 0; j < work.rank; ++j, a += work.a_row_bytes, b += work.b_row_bytes[s]) {
    CopyPaddedRow(matrix.a_rows, matrix.rank, j, lora.k * element_bytes, a);
    CopyPaddedRow(matrix.b_rows, matrix.rank, j, lora.slice_n[s] * element_bytes, b);
    table[j] = a;
    table[work.rank + j] = b;
  }
}

void CopyPaddedCpu(const LoraPaddedWork& work, Stream& stream) {
  const LoraArgs& lora = work.lora;
  for (int32_t i = 0; i < lora.num_segments; ++i) {
    work.segments[i] = {lora.segments[i].row_begin, lora.segments[i].row_end, i};
  }
  const auto copy = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CopyPaddedSlice(work, i / lora.num_slices, static_cast<int32_t>(i % lora.num_slices));
    }
  };
  stream.cpu_threads->ParallelFor(int64_t{lora.num_segments} * lora.num_slices, 1, copy);
}

}  // namespace

int64_t LoraPaddedBytes(int64_t num_segments, int32_t num_slices, int64_t k, int64_t n,
                        int32_t rank, DType dtype) {
  const PaddedSizes sizes = PaddedSizesOf(num_segments, num_slices, rank);
  const int64_t element_bytes = DTypeBytes(dtype);
  // However n is shared out among slices.
  const int64_t row_bytes = num_slices * (AlignedCopy(k * element_bytes) + kCopyAlignment) +
                            AlignedCopy(n * element_bytes);
  return sizes.tables + sizes.matrices + sizes.segments + num_segments * rank * row_bytes;
}

void LoraPadded(const LoraPaddedArgs& args, Stream& stream) {
  CHECK(args.rank > 0 && args.rank <= kLoraRankMax && args.rank <= args.lora.h_stride)
      << args.rank << ", room for " << args.lora.h_stride;
  if (args.lora.num_segments == 0) return;
  CHECK(args.scratch != nullptr);
  const LoraPaddedWork work = LayOutPadded(args);
  if (stream.device.is_cpu()) {
    CopyPaddedCpu(work, stream);
  } else {
    if constexpr (kHasCuda) CopyPaddedCuda(work, stream);
    // Lora may read adapters while the kernel before it still runs, but not while anything else
    // does.
    ZeroOnDevice(args.lora.h, sizeof(float), stream);
  }
  LoraArgs product = args.lora;
  product.segments = work.segments;
  product.matrices = work.matrices;
  product.matrices_stride = args.lora.num_slices;
  Lora(product, stream);
}

}  // namespace graft
