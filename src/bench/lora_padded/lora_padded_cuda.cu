// A block per rank, slice and segment copies a row of A and one of B.
#include <cuda_runtime.h>

#include "bench/lora_padded/lora_padded_work.h"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft {
namespace {

constexpr int kThreads = 256;

// If `from` is null, writes zeros. Elements have at least two bytes.
__device__ void CopyRow(const char* from, int64_t bytes, char* to) {
  constexpr int64_t kVector = sizeof(uint4);
  const bool vectors = reinterpret_cast<uintptr_t>(from) % kVector == 0;
  const int64_t num_vectors = vectors ? bytes / kVector : 0;
  for (int64_t i = threadIdx.x; i < num_vectors; i += kThreads) {
    reinterpret_cast<uint4*>(to)[i] =
        from == nullptr ? uint4{} : reinterpret_cast<const uint4*>(from)[i];
  }
  for (int64_t i = num_vectors * (kVector / 2) + threadIdx.x; i < bytes / 2; i += kThreads) {
    reinterpret_cast<uint16_t*>(to)[i] =
        from == nullptr ? uint16_t{0} : reinterpret_cast<const uint16_t*>(from)[i];
  }
}

__global__ void __launch_bounds__(kThreads)
    CopyKernel(const __grid_constant__ LoraPaddedWork work) {
  WaitForPrevious();
  const LoraArgs& lora = work.lora;
  const int j = static_cast<int>(blockIdx.x);
  const int s = static_cast<int>(blockIdx.y);
  const int64_t i = blockIdx.z;
  const LoraSegment segment = lora.segments[i];
  const int64_t pair = i * lora.num_slices + s;
  LoraMatrix matrix = {};
  if (segment.row_begin < segment.row_end) {
    matrix = lora.matrices[segment.adapter_slot * lora.matrices_stride + s];
  }
  const void** table = work.tables + pair * 2 * work.rank;
  if (threadIdx.x == 0 && j == 0) {
    if (s == 0) {
      work.segments[i] = {segment.row_begin, segment.row_end, static_cast<int32_t>(i)};
    }
    work.matrices[pair] = {table, table + work.rank, matrix.rank > 0 ? work.rank : 0, matrix.scale};
  }
  if (matrix.rank == 0) return;
  char* slice = work.rows + i * work.segment_bytes + work.slice_begin[s];
  char* a = slice + j * work.a_row_bytes;
  char* b = slice + work.rank * work.a_row_bytes + j * work.b_row_bytes[s];
  if (threadIdx.x == 0) {
    table[j] = a;
    table[work.rank + j] = b;
  }
  const int64_t element_bytes = lora.dtype == DType::kF32 ? 4 : 2;
  const bool exists = j < matrix.rank;
  CopyRow(exists ? static_cast<const char*>(matrix.a_rows[j]) : nullptr, lora.k * element_bytes, a);
  CopyRow(exists ? static_cast<const char*>(matrix.b_rows[j]) : nullptr,
          lora.slice_n[s] * element_bytes, b);
}

}  // namespace

void CopyPaddedCuda(const LoraPaddedWork& work, Stream& stream) {
  const dim3 grid = GridOf(work.rank, work.lora.num_slices, work.lora.num_segments);
  LaunchKernel(CopyKernel, grid, dim3(kThreads), 0, CudaStreamOf(stream), work);
}

}  // namespace graft
