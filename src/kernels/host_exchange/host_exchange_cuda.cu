// Export: one block per run of a row. The last block to finish raises the flag, so that the stream
// needs no second launch. Wait: one warp, in which each lane polls a flag and sleeps in between.
// Add: one block per run of columns of a row.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/host_exchange/host_exchange.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;
constexpr int kBlockColumns = kThreads * kWidth;
constexpr int kExportBytes = kThreads * 16;  // of a row, for one block

// The row at position `index` of the rows, and the segment that it is in.
__device__ __forceinline__ int32_t RowOf(const HostSegments& rows, int32_t index,
                                         int32_t* segment) {
  int32_t i = 0;
  int32_t count = rows.segments[0].row_end - rows.segments[0].row_begin;
  while (index >= count) {
    index -= count;
    ++i;
    count = rows.segments[i].row_end - rows.segments[i].row_begin;
  }
  *segment = i;
  return rows.segments[i].row_begin + index;
}

template <typename Unit>
__global__ void __launch_bounds__(kThreads)
    ExportKernel(const __grid_constant__ HostExportArgs args, int64_t row_units,
                 int64_t stride_units) {
  LetNextStart();
  int32_t segment = 0;
  const int64_t row = RowOf(args.rows, static_cast<int32_t>(blockIdx.x), &segment);
  const int64_t block_units = kExportBytes / static_cast<int64_t>(sizeof(Unit));
  const int64_t begin = blockIdx.y * block_units;
  const int64_t end = begin + block_units < row_units ? begin + block_units : row_units;
  const Unit* const from = static_cast<const Unit*>(args.x) + row * stride_units;
  Unit* const to = static_cast<Unit*>(args.out) + row * row_units;
  WaitForPrevious();
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) to[i] = from[i];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return;
  // The counter is 0 again after the last block.
  const uint32_t num_blocks = gridDim.x * gridDim.y;
  if (atomicInc(args.num_done, num_blocks - 1) != num_blocks - 1) return;
  __threadfence_system();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(args.flag), "r"(args.step) : "memory");
}

__global__ void __launch_bounds__(32) WaitKernel(HostWaitArgs args) {
  // Needs no WaitForPrevious: the host writes the flags, and no earlier kernel does.
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < args.num_flags; i += 32) {
    const uint32_t* const flag = args.flags + i * args.flag_stride;
    uint32_t nanoseconds = 128;
    for (;;) {
      uint32_t value = 0;
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
      if (static_cast<int32_t>(value - args.step) >= 0) break;
      __nanosleep(nanoseconds);
      if (nanoseconds < 1024) nanoseconds *= 2;
    }
  }
  __threadfence_system();
  WaitForPrevious();
}

template <bool kVectors>
__global__ void __launch_bounds__(kThreads) AddKernel(const __grid_constant__ HostAddArgs args) {
  LetNextStart();
  int32_t segment = 0;
  const int64_t row = RowOf(args.rows, static_cast<int32_t>(blockIdx.x), &segment);
  const int32_t slice = static_cast<int32_t>(blockIdx.z);
  if (slice >= args.num_slices) return;
  const float scale = args.rows.segments[segment].scale[slice];
  const int64_t begin = int64_t{blockIdx.y} * kBlockColumns + threadIdx.x * kWidth;
  const int64_t count = args.slice_n[slice] - begin;
  const int64_t column = args.slice_begin[slice] + begin;
  WaitForPrevious();
  if (scale == 0.0f || count <= 0) return;
  float delta[kWidth], y[kWidth];
  float* const out = args.y + row * args.y_stride + column;
  LoadRun<kVectors>(args.delta + row * args.delta_stride + column, count, delta);
  LoadRun<kVectors>(out, count, y);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) y[i] = fmaf(scale, delta[i], y[i]);
  StoreRun<kVectors>(y, count, out);
}

bool IsVectorBorder(const void* p, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 && bytes % 16 == 0;
}

template <typename Unit>
void LaunchExport(const HostExportArgs& args, Stream& stream) {
  const int64_t element_bytes = DTypeBytes(args.dtype);
  const auto unit_bytes = static_cast<int64_t>(sizeof(Unit));
  const int64_t row_bytes = args.k * element_bytes;
  const dim3 grid = GridOf(args.rows.num_rows(), CeilDiv(row_bytes, kExportBytes));
  LaunchKernel(ExportKernel<Unit>, grid, kThreads, 0, CudaStreamOf(stream), args,
               row_bytes / unit_bytes, args.x_stride * element_bytes / unit_bytes);
}

// A step without rows still raises its flag.
__global__ void RaiseKernel(uint32_t* flag, uint32_t step) {
  WaitForPrevious();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(step) : "memory");
}

}  // namespace

void HostExportCuda(const HostExportArgs& args, Stream& stream) {
  if (args.rows.num_rows() == 0) {
    LaunchKernel(RaiseKernel, 1, 1, 0, CudaStreamOf(stream), args.flag, args.step);
    return;
  }
  const int64_t element_bytes = DTypeBytes(args.dtype);
  if (IsVectorBorder(args.x, args.x_stride * element_bytes) &&
      IsVectorBorder(args.out, args.k * element_bytes)) {
    LaunchExport<uint4>(args, stream);
  } else if (element_bytes == 4) {
    LaunchExport<uint32_t>(args, stream);
  } else {
    LaunchExport<uint16_t>(args, stream);
  }
}

void HostWaitCuda(const HostWaitArgs& args, Stream& stream) {
  LaunchKernel(WaitKernel, 1, 32, 0, CudaStreamOf(stream), args);
}

void HostAddCuda(const HostAddArgs& args, Stream& stream) {
  const int32_t num_rows = args.rows.num_rows();
  if (num_rows == 0) return;
  int64_t slice_n_max = 0;
  bool vectors = IsVectorBorder(args.delta, args.delta_stride * 4) &&
                 IsVectorBorder(args.y, args.y_stride * 4);
  for (int32_t s = 0; s < args.num_slices; ++s) {
    if (args.slice_n[s] > slice_n_max) slice_n_max = args.slice_n[s];
    vectors = vectors && args.slice_begin[s] % kWidth == 0 && args.slice_n[s] % kWidth == 0;
  }
  const dim3 grid = GridOf(num_rows, CeilDiv(slice_n_max, kBlockColumns), args.num_slices);
  DispatchVectors(vectors, [&]<bool kVectors>() {
    LaunchKernel(AddKernel<kVectors>, grid, kThreads, 0, CudaStreamOf(stream), args);
  });
}

}  // namespace graft
