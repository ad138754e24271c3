// Brings weights to the GPU: copies them from the host in pieces, or draws random ones there.
#include <cuda_runtime.h>

#include <algorithm>
#include <mutex>

#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_cuda.h"
#include "tensor/cuda_check.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

constexpr int64_t kPieceBytes = int64_t{16} << 20;
// The work that a thread of the host takes at a time.
constexpr int64_t kGrainBytes = 64 << 10;

// Page-locked memory takes milliseconds to get (for 16 MB), and a model has hundreds of matrices.
// So two pieces are kept until the process ends.
struct Staging {
  std::mutex mutex;
  PinnedBuffer pieces[2] = {PinnedBuffer(kPieceBytes), PinnedBuffer(kPieceBytes)};
};

Staging& TheStaging() {
  static Staging* const staging = new Staging;  // never destroyed: the CUDA runtime may end first
  return *staging;
}

template <typename T>
__global__ void RandomRows(uint64_t seed, float deviation, int64_t num_elements, int64_t k,
                           int64_t stride, T* target) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < num_elements; i += step) {
    target[i / k * stride + i % k] = NarrowElement<T>(RandomWeight(seed, i, deviation));
  }
}

}  // namespace

void UploadRows(void* target, int64_t num_rows, int64_t row_bytes,
                const std::function<void(int64_t, int64_t, char*)>& fill, Stream& stream) {
  CHECK_LE(row_bytes, kPieceBytes);
  Staging& staging = TheStaging();
  const std::lock_guard<std::mutex> lock(staging.mutex);
  cudaEvent_t copied[2];
  for (cudaEvent_t& event : copied) {
    CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  // A new buffer is zeroed on the default stream, for which our stream does not wait.
  CUDA_CHECK(cudaStreamSynchronize(cudaStreamLegacy));
  const int64_t piece_rows = kPieceBytes / row_bytes;
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / row_bytes);
  for (int64_t begin = 0, piece = 0; begin < num_rows; begin += piece_rows, ++piece) {
    const int64_t rows = std::min(piece_rows, num_rows - begin);
    char* out = staging.pieces[piece % 2].as<char>();
    CUDA_CHECK(cudaEventSynchronize(copied[piece % 2]));  // at first returns at once
    stream.cpu_threads->ParallelFor(rows, grain, [&](int64_t first, int64_t last) {
      fill(begin + first, begin + last, out + first * row_bytes);
    });
    CopyToDevice(static_cast<char*>(target) + begin * row_bytes, out, rows * row_bytes, stream);
    CUDA_CHECK(cudaEventRecord(copied[piece % 2], CudaStreamOf(stream)));
  }
  Synchronize(stream);
  for (const cudaEvent_t event : copied) CUDA_CHECK(cudaEventDestroy(event));
}

void FillRandomRows(uint64_t seed, float deviation, DType dtype, int64_t num_rows, int64_t k,
                    int64_t stride, void* target, Stream& stream) {
  CUDA_CHECK(cudaStreamSynchronize(cudaStreamLegacy));  // as in UploadRows
  constexpr int kBlocks = 1024;
  constexpr int kThreads = 256;
  DispatchDType(dtype, [&]<typename T>() {
    RandomRows<<<kBlocks, kThreads, 0, CudaStreamOf(stream)>>>(seed, deviation, num_rows * k, k,
                                                               stride, static_cast<T*>(target));
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace graft
