// A block has a row. A thread has pairs of a key's turning dimensions, then what does not turn.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/kv_rows/kv_rows.h"

namespace graft {
namespace {

constexpr int kThreads = 128;

// kAdds: from the token to the row, turned back by `to`; else from the row to the token.
template <typename T, bool kAdds>
__global__ void __launch_bounds__(kThreads) KvRowsKernel(KvRowsArgs args) {
  LetNextStart();
  WaitForPrevious();
  const KvRow row = args.rows[blockIdx.x];
  T* const keys_values =
      static_cast<T*>(args.keys_values) + row.row * args.stride + args.key_column;
  float* const token = row.token + args.token_offset;
  const auto move = [&](int at, float value) {
    if constexpr (kAdds) {
      keys_values[at] = NarrowElement<T>(WidenElement(keys_values[at]) + value);
    } else {
      token[at] = value;
    }
  };
  const auto read = [&](int at) { return kAdds ? token[at] : WidenElement(keys_values[at]); };
  const int turn = kAdds ? -row.to : row.to - row.from;
  const int half = args.rotary_dim / 2;
  const float sign = turn < 0 ? -1.0f : 1.0f;
  const int64_t angle = int64_t{turn < 0 ? -turn : turn} * half;
  for (int at = threadIdx.x; at < args.num_kv_heads * half; at += kThreads) {
    const int i = at % half;
    const int head = at / half * args.head_dim;
    const int first = head + (args.interleaved ? 2 * i : i);
    const int second = head + (args.interleaved ? 2 * i + 1 : i + half);
    const float cos = args.cos[angle + i];
    const float sin = sign * args.sin[angle + i];
    const float low = read(first), high = read(second);
    move(first, low * cos - high * sin);
    move(second, high * cos + low * sin);
  }
  const int still = args.head_dim - args.rotary_dim;
  for (int at = threadIdx.x; at < args.num_kv_heads * still; at += kThreads) {
    const int place = at / still * args.head_dim + args.rotary_dim + at % still;
    move(place, read(place));
  }
  const int size = args.num_kv_heads * args.head_dim;
  for (int at = size + threadIdx.x; at < 2 * size; at += kThreads) move(at, read(at));
}

template <bool kAdds>
void LaunchKvRows(const KvRowsArgs& args, Stream& stream) {
  const auto kernel =
      args.dtype == DType::kF32 ? KvRowsKernel<float, kAdds> : KvRowsKernel<Bfloat16, kAdds>;
  LaunchKernel(kernel, GridOf(args.num_rows), kThreads, 0, CudaStreamOf(stream), args);
}

}  // namespace

void TakeKvRowsCuda(const KvRowsArgs& args, Stream& stream) { LaunchKvRows<false>(args, stream); }

void AddKvRowsCuda(const KvRowsArgs& args, Stream& stream) { LaunchKvRows<true>(args, stream); }

}  // namespace graft
