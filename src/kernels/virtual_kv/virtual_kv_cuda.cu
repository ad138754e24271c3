// One block per token of a run, of the longest run's length; a thread moves eight dimensions of a
// head at a time.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/virtual_kv/virtual_kv.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 8;

template <typename T, bool kVectors>
__global__ void __launch_bounds__(kThreads) VirtualKvKernel(VirtualKvArgs args) {
  WaitForPrevious();
  const KvLayout& layout = args.layout;
  const VirtualRun run = args.runs[blockIdx.y];
  const int32_t token = run.token_begin + static_cast<int32_t>(blockIdx.x);
  if (token >= run.token_end) return;
  const T* row = static_cast<const T*>(args.table[run.adapter_slot][token]);
  const int32_t page = args.pages[run.place + token / layout.page_tokens];
  const int32_t slot = token % layout.page_tokens;
  const int runs_per_head = (layout.head_dim + kWidth - 1) / kWidth;
  const int num_pieces = 2 * layout.num_layers * layout.num_kv_heads * runs_per_head;
  for (int piece = threadIdx.x; piece < num_pieces; piece += kThreads) {
    const int head = piece / runs_per_head;  // of all layers, keys before values in each
    const int begin = piece % runs_per_head * kWidth;
    const int kv_head = head % layout.num_kv_heads;
    const int side = head / layout.num_kv_heads % 2;
    const int layer = head / layout.num_kv_heads / 2;
    const int64_t count = layout.head_dim - begin;
    float values[kWidth];  // as exact as any of the types
    LoadRun<kVectors>(row + int64_t{head} * layout.head_dim + begin, count, values);
    T* out = static_cast<T*>(args.pool) + layout.KeyOffset(page, layer, kv_head, slot) +
             side * layout.KeyElements() + begin;
    StoreRun<kVectors>(values, count, out);
  }
  // Not earlier: attention reads what is old before it waits, and all kernels between may start at
  // once (see AttentionArgs).
  __threadfence();
  __syncthreads();
  LetNextStart();
}

}  // namespace

void VirtualKvCuda(const VirtualKvArgs& args, Stream& stream) {
  if (args.num_runs == 0) return;
  const bool vectors = IsVectorAligned(args.pool) && args.layout.head_dim % kWidth == 0;
  const dim3 grid = GridOf(args.run_tokens_max, args.num_runs);
  DispatchDType(args.layout.dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      LaunchKernel(VirtualKvKernel<T, kVectors>, grid, kThreads, 0, CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
