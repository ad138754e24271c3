// One thread per eight dimensions of a head's key or value.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/kv_write/kv_write.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 8;

template <typename T, bool kVectors>
__global__ void __launch_bounds__(kThreads) KvWriteKernel(KvWriteArgs args) {
  const KvLayout& layout = args.layout;
  const int64_t row = blockIdx.x;
  const int in_row = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  const int runs_per_head = (layout.head_dim + kWidth - 1) / kWidth;
  const int head = in_row / runs_per_head;  // heads of keys, then heads of values
  const int begin = in_row % runs_per_head * kWidth;
  const bool is_key = head < layout.num_kv_heads;
  const int kv_head = is_key ? head : head - layout.num_kv_heads;
  LetNextStart();
  WaitForPrevious();
  if (in_row >= 2 * layout.num_kv_heads * runs_per_head) return;
  const int32_t page = args.row_page[row];
  if (page < 0) return;
  float values[kWidth];
  const int64_t count = layout.head_dim - begin;
  LoadRun<kVectors>((is_key ? args.k : args.v) + row * args.row_stride +
                        int64_t{kv_head} * layout.head_dim + begin,
                    count, values);
  T* out = static_cast<T*>(args.pool) +
           layout.KeyOffset(page, args.layer, kv_head, args.row_slot[row]) + begin;
  StoreRun<kVectors>(values, count, is_key ? out : out + layout.KeyElements());
}

}  // namespace

void KvWriteCuda(const KvWriteArgs& args, Stream& stream) {
  if (args.num_rows == 0) return;
  const KvLayout& layout = args.layout;
  const bool vectors = IsVectorAligned(args.k) && IsVectorAligned(args.v) &&
                       IsVectorAligned(args.pool) && IsVectorAligned(args.row_stride * 4) &&
                       layout.head_dim % kWidth == 0;
  const int64_t runs_per_row = int64_t{2} * layout.num_kv_heads * CeilDiv(layout.head_dim, kWidth);
  const dim3 grid = GridOf(args.num_rows, CeilDiv(runs_per_row, kThreads));
  DispatchDType(layout.dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      LaunchKernel(KvWriteKernel<T, kVectors>, grid, kThreads, 0, CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
