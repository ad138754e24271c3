// Two launches over a table of adapters: the sums of squares, in parts that depend on the adapter's
// size alone; and the update, each thread block of which adds the parts up in one order.
#include <algorithm>
#include <cmath>

#include "kernels/adamw/adamw.h"
#include "kernels/adamw/adamw_work.h"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_reduce.cuh"
#include "kernels/common/cuda_vector.cuh"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;
constexpr int kItemsMax = 16;  // of a launch: they are its arguments

struct Item {
  AdamWItem item;
  float first_bias;   // 1 - beta1^step
  float second_root;  // sqrt(1 - beta2^step)
};

struct Table {
  Item items[kItemsMax];
  double* sums;  // [items, kAdamWParts]
};

template <bool kVectors>
__global__ void __launch_bounds__(kThreads) SumSquares(const __grid_constant__ Table table) {
  __shared__ double scratch[kThreads / kWarpThreads];
  LetNextStart();
  WaitForPrevious();
  const AdamWItem& item = table.items[blockIdx.y].item;
  double total = 0.0;
  for (int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth; begin < item.n;
       begin += int64_t{kAdamWParts} * kThreads * kWidth) {
    float g[kWidth];
    LoadRun<kVectors>(item.gradients + begin, item.n - begin, g);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      total += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
  }
  total = ReduceBlock(total, 0.0, scratch, Add{});
  if (threadIdx.x == 0) table.sums[blockIdx.y * kAdamWParts + blockIdx.x] = total;
}

// What the gradients are multiplied by; the constant is PyTorch's.
__device__ __forceinline__ float ClipOf(const AdamWItem& item, double norm) {
  const double clip = static_cast<double>(item.norm_max) / (norm + 1e-6);
  return item.norm_max > 0.0f && clip < 1.0 ? static_cast<float>(clip) : 1.0f;
}

template <bool kVectors>
__global__ void __launch_bounds__(kThreads) Update(const __grid_constant__ Table table) {
  __shared__ double scratch[kThreads / kWarpThreads];
  LetNextStart();
  WaitForPrevious();
  const Item& entry = table.items[blockIdx.y];
  const AdamWItem& item = entry.item;
  double total = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < kAdamWParts; i += kThreads) {
    total += table.sums[blockIdx.y * kAdamWParts + i];
  }
  const double norm = sqrt(ReduceBlock(total, 0.0, scratch, Add{}));
  if (blockIdx.x == 0 && threadIdx.x == 0) *item.norm = norm;
  const float clip = ClipOf(item, norm);
  const float decay = 1.0f - item.learning_rate * item.weight_decay;
  const float step = -item.learning_rate / entry.first_bias;
  const float root = 1.0f / entry.second_root;
  for (int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth; begin < item.n;
       begin += int64_t{gridDim.x} * kThreads * kWidth) {
    const int64_t count = item.n - begin;
    float g[kWidth], m[kWidth], v[kWidth], p[kWidth];
    LoadRun<kVectors>(item.gradients + begin, count, g);
    LoadRun<kVectors>(item.first_moments + begin, count, m);
    LoadRun<kVectors>(item.second_moments + begin, count, v);
    LoadRun<kVectors>(item.parameters + begin, count, p);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      g[i] *= clip;
      m[i] = __fmaf_rn(1.0f - item.beta1, g[i], item.beta1 * m[i]);
      v[i] = __fmaf_rn(1.0f - item.beta2, g[i] * g[i], item.beta2 * v[i]);
      const float scale = __fmaf_rn(sqrtf(v[i]), root, item.epsilon);
      p[i] = __fmaf_rn(step, m[i] / scale, p[i] * decay);
    }
    StoreRun<kVectors>(m, count, item.first_moments + begin);
    StoreRun<kVectors>(v, count, item.second_moments + begin);
    StoreRun<kVectors>(p, count, item.parameters + begin);
  }
}

bool AllowsVectors(const AdamWItem& item) {
  return IsVectorAligned(item.parameters) && IsVectorAligned(item.gradients) &&
         IsVectorAligned(item.first_moments) && IsVectorAligned(item.second_moments) &&
         item.n % kWidth == 0;
}

}  // namespace

void AdamWCuda(const AdamWArgs& args, Stream& stream) {
  bool vectors = true;
  for (int32_t i = 0; i < args.num_items; ++i) vectors = vectors && AllowsVectors(args.items[i]);
  for (int32_t first = 0; first < args.num_items; first += kItemsMax) {
    const int32_t count = std::min(kItemsMax, args.num_items - first);
    Table table = {};
    table.sums = args.scratch + int64_t{first} * kAdamWParts;
    for (int32_t i = 0; i < count; ++i) {
      const AdamWItem& item = args.items[first + i];
      table.items[i] = {
          item, static_cast<float>(1.0 - std::pow(static_cast<double>(item.beta1), item.step)),
          static_cast<float>(
              std::sqrt(1.0 - std::pow(static_cast<double>(item.beta2), item.step)))};
    }
    const dim3 grid = GridOf(kAdamWParts, count);
    DispatchVectors(vectors, [&]<bool kVectors>() {
      LaunchKernel(SumSquares<kVectors>, grid, dim3(kThreads), 0, CudaStreamOf(stream), table);
      LaunchKernel(Update<kVectors>, grid, dim3(kThreads), 0, CudaStreamOf(stream), table);
    });
  }
}

}  // namespace graft
