// A block per row. What its threads read stays in registers between the two passes; rows too long
// for that are read twice. The order of the sums depends on n alone.
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/rms_norm_backward/rms_norm_backward.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;
constexpr int kRunsKept = 4;
constexpr int64_t kStride = int64_t{kThreads} * kWidth;

struct NormRow {
  const RmsNormBackwardArgs& args;
  int64_t from;  // row of x, d_out and normed
  int64_t to;    // row of d_x

  // x, and d_out by the weights, of a thread's run.
  template <typename T, bool kVectors>
  __device__ __forceinline__ void Load(int64_t begin, float (&x)[kWidth],
                                       float (&d)[kWidth]) const {
    const int64_t count = args.n - begin;
    LoadRun<kVectors>(static_cast<const T*>(args.x) + from * args.n + begin, count, x);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) d[i] = 0.0f;
    if (args.d_out == nullptr) return;
    float weight[kWidth];
    LoadRun<kVectors>(args.d_out + from * args.n + begin, count, d);
    LoadRun<kVectors>(args.weight + begin, count, weight);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) d[i] *= weight[i];
  }

  template <typename T, bool kVectors>
  __device__ __forceinline__ void PutNormed(int64_t begin, const float (&x)[kWidth],
                                            float r) const {
    const int64_t count = args.n - begin;
    float values[kWidth];
    LoadRun<kVectors>(args.weight + begin, count, values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = x[i] * r * values[i];
    StoreRun<kVectors>(values, count, static_cast<T*>(args.normed) + from * args.n + begin);
  }

  template <typename T, bool kVectors>
  __device__ __forceinline__ void Add(int64_t begin, const float (&x)[kWidth],
                                      const float (&d)[kWidth], float r, float along) const {
    if (args.normed != nullptr) PutNormed<T, kVectors>(begin, x, r);
    if (args.d_out == nullptr) return;
    const int64_t count = args.n - begin;
    const int64_t offset = to * args.n + begin;
    float sum[kWidth];
    LoadRun<kVectors>(args.d_x + offset, count, sum);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += __fmaf_rn(along, x[i], d[i] * r);
    StoreRun<kVectors>(sum, count, args.d_x + offset);
    if (args.d_x_copy == nullptr) return;
    StoreRun<kVectors>(sum, count, static_cast<T*>(args.d_x_copy) + offset);
  }
};

template <typename T, bool kVectors>
__global__ void __launch_bounds__(kThreads) RmsNormBackwardKernel(RmsNormBackwardArgs args) {
  __shared__ float scratch[2][kThreads / kWarpThreads];
  const int64_t from = blockIdx.x;
  LetNextStart();
  WaitForPrevious();
  const NormRow row{args, from, args.rows == nullptr ? from : args.rows[from]};
  const int64_t first = int64_t{threadIdx.x} * kWidth;
  float x[kRunsKept][kWidth], d[kRunsKept][kWidth];
  float squares = 0.0f, products = 0.0f;
  const auto add = [&](const float(&xs)[kWidth], const float(&ds)[kWidth]) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      squares = __fmaf_rn(xs[i], xs[i], squares);
      products = __fmaf_rn(xs[i], ds[i], products);
    }
  };
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) {
    row.Load<T, kVectors>(first + run * kStride, x[run], d[run]);
    add(x[run], d[run]);
  }
  for (int64_t begin = first + kRunsKept * kStride; begin < args.n; begin += kStride) {
    float more_x[kWidth], more_d[kWidth];
    row.Load<T, kVectors>(begin, more_x, more_d);
    add(more_x, more_d);
  }
  squares = ReduceBlock(squares, 0.0f, scratch[0], Add{});
  products = ReduceBlock(products, 0.0f, scratch[1], Add{});
  const auto n = static_cast<float>(args.n);
  const float r = 1.0f / sqrtf(squares / n + args.epsilon);
  const float along = -r * r * r * products / n;
#pragma unroll
  for (int run = 0; run < kRunsKept; ++run) {
    row.Add<T, kVectors>(first + run * kStride, x[run], d[run], r, along);
  }
  for (int64_t begin = first + kRunsKept * kStride; begin < args.n; begin += kStride) {
    float more_x[kWidth], more_d[kWidth];
    row.Load<T, kVectors>(begin, more_x, more_d);
    row.Add<T, kVectors>(begin, more_x, more_d, r, along);
  }
}

}  // namespace

void RmsNormBackwardCuda(const RmsNormBackwardArgs& args, Stream& stream) {
  const bool vectors = IsVectorAligned(args.x) && IsVectorAligned(args.weight) &&
                       IsVectorAligned(args.d_out) && IsVectorAligned(args.d_x) &&
                       IsVectorAligned(args.d_x_copy) && IsVectorAligned(args.normed) &&
                       args.n % kWidth == 0;
  DispatchDType(args.x_dtype, [&]<typename T>() {
    DispatchVectors(vectors, [&]<bool kVectors>() {
      LaunchKernel(RmsNormBackwardKernel<T, kVectors>, GridOf(args.num_rows), dim3(kThreads), 0,
                   CudaStreamOf(stream), args);
    });
  });
}

}  // namespace graft
