// What stands before a product of codes by numbers (gemm_cuda.cu): x in the weight's input order,
// and all of W's numbers in bf16, as the kernels for plain weights take them.
#include <algorithm>
#include <vector>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_bricks.h"
#include "kernels/gemm/gemm_codes_operands.cuh"
#include "kernels/gemm/gemm_layout.h"

namespace graft {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// A thread has 8 columns of a row; those from k to the stride are zeros.
__global__ void __launch_bounds__(kThreads)
    OrderKernel(const uint16_t* x, int64_t x_stride, const int32_t* order, int64_t k,
                int64_t stride, uint16_t* out) {
  WaitForPrevious();
  LetNextStart();
  const int64_t row = blockIdx.y;
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * 8;
  if (begin >= stride) return;
  uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = begin + i < k ? x[row * x_stride + order[begin + i]] : 0;
    words[i / 2] |= bits << (i % 2 * 16);
  }
  *reinterpret_cast<uint4*>(out + row * stride + begin) = {words[0], words[1], words[2], words[3]};
}

struct NumbersArgs {
  const char* bricks;
  uint16_t* out;
  int64_t brick_bytes;
  int64_t num_bricks;  // of a strip
  int64_t num_all;     // bricks
  int64_t n;
  int64_t k;
  int64_t stride;
  int entry_bytes;
  int row_entries;
  int quarter_shift;  // 32 columns' scale is entry (quarter >> quarter_shift)
  bool has_zero_points;
};

// Four lanes, t = lane % 4, have pairs[i] of columns 8 i + 2 t. Lane t gets columns 8 t to 8 t + 7.
__device__ __forceinline__ void TurnPairs(uint32_t (&pairs)[4]) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool is_high = (threadIdx.x & bit) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & bit) != 0) continue;
      uint32_t& low = pairs[i];
      uint32_t& high = pairs[i | bit];
      const uint32_t got = __shfl_xor_sync(~0u, is_high ? low : high, bit);
      if (is_high) {
        low = got;
      } else {
        high = got;
      }
    }
  }
}

template <codes::Kind kKind>
__device__ __forceinline__ codes::RowScale<kKind> ScaleAt(const char* entry,
                                                          const NumbersArgs& args) {
  codes::RowScale<kKind> row;
  const auto* const halves = reinterpret_cast<const uint16_t*>(entry);
  if constexpr (codes::IsWide(kKind)) {
    row.scale = *reinterpret_cast<const float*>(entry);
    if (args.has_zero_points) row.minus = codes::Both(halves[2]);
  } else {
    row.scale = codes::Both(halves[0]);
  }
  return row;
}

// A warp makes the numbers of whole bricks, 32 columns at a time.
template <codes::Kind kKind>
__global__ void __launch_bounds__(kThreads)
    NumbersKernel(const __grid_constant__ NumbersArgs args) {
  constexpr int kTableCopies = kKind == codes::Kind::kNormal4 ? 4 : 0;
  constexpr int kBits = codes::BitsOf(kKind);
  constexpr int kCodeBytes = 128 * kBits;
  __shared__ __align__(16) char shared[std::max(kTableCopies * 2048, 16)];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t table = SharedAddress(shared);
  if constexpr (kTableCopies > 0) {
    codes::WriteTable<kThreads, kTableCopies>(table);
    table += lane % kTableCopies * 8;
    __syncthreads();
  }
  WaitForPrevious();  // the last product reads the room
  const int64_t first = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
#pragma unroll 1
  for (int64_t brick = first; brick < args.num_all; brick += int64_t{gridDim.x} * kWarps) {
    const char* const from = args.bricks + brick * args.brick_bytes;
    const int64_t row = brick / args.num_bricks * kBrickRows + lane / 4;
    const int64_t column = brick % args.num_bricks * kBrickColumns + lane % 4 * 8;
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      const int entry = lane / 4 * args.row_entries + (quarter >> args.quarter_shift);
      const codes::RowScale<kKind> scale =
          ScaleAt<kKind>(from + kCodeBytes + entry * args.entry_bytes, args);
      uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int unit = kBits == 4 ? quarter : quarter * 2 + i / 2;
        const uint32_t word = reinterpret_cast<const uint32_t*>(from)[unit * 32 + lane];
        const int pair = kBits == 4 ? i : i % 2;
        pairs[i] = codes::NumbersOf<kKind, kTableCopies>(word, pair, scale, table);
      }
      TurnPairs(pairs);
      const int64_t begin = column + quarter * 32;
      if (row >= args.n || begin >= args.stride) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (begin + 2 * i >= args.k) pairs[i] = 0;
        if (begin + 2 * i + 1 >= args.k) pairs[i] &= 0xffffu;
      }
      *reinterpret_cast<uint4*>(args.out + row * args.stride + begin) = {pairs[0], pairs[1],
                                                                         pairs[2], pairs[3]};
    }
  }
  // No kernel begins before this one's end. One that then begins may read the numbers without
  // waiting.
  __threadfence();
}

using NumbersLauncher = void (*)(const NumbersArgs& args, Stream& stream);

template <codes::Kind kKind>
void LaunchNumbers(const NumbersArgs& args, Stream& stream) {
  constexpr int kBlocksOfProcessor = 8;
  const int64_t blocks =
      std::min(CeilDiv(args.num_all, kWarps),
               int64_t{TraitsOf(stream.device).num_multiprocessors} * kBlocksOfProcessor);
  LaunchKernel(NumbersKernel<kKind>, GridOf(blocks), dim3(kThreads), 0, CudaStreamOf(stream), args);
}

constexpr NumbersLauncher kLaunchers[codes::kNumKinds] = {
    LaunchNumbers<codes::Kind::kInt4>, LaunchNumbers<codes::Kind::kInt4Wide>,
    LaunchNumbers<codes::Kind::kInt8>, LaunchNumbers<codes::Kind::kInt8Wide>,
    LaunchNumbers<codes::Kind::kNormal4>};

GemmRoomPlan PlanOf(const GemmCudaArgs& args) {
  return GemmRoomPlan(args.gemm.m, args.n, args.k, args.gemm.weight->format());
}

// A product of the first k_first columns, and one of the others, which adds to y, with all else.
std::vector<GemmCudaArgs> ProductsOf(const GemmCudaArgs& product, int64_t k_first) {
  if (product.k <= k_first) return {product};
  std::vector<GemmCudaArgs> products(2, product);
  GemmEpilogue& first = products[0].gemm.epilogue;
  products[0].k = k_first;
  first.bias = nullptr;
  first.lora = nullptr;
  GemmCudaArgs& second = products[1];
  second.k = product.k - k_first;
  second.w = static_cast<const uint16_t*>(product.w) + k_first;
  second.gemm.x = static_cast<const uint16_t*>(product.gemm.x) + k_first;
  second.gemm.epilogue.accumulate = true;
  return products;
}

}  // namespace

GemmCudaArgs OrderX(const GemmCudaArgs& args, Stream& stream) {
  const WeightFormat format = args.gemm.weight->format();
  const GemmBricksLayout layout(format, args.n, args.k);
  CHECK(format.has_input_order && PlanOf(args).numbers_begin <= args.gemm.room.bytes)
      << "codes in an order of their own need room for x";
  GemmCudaArgs product = args;
  product.gemm.x = args.gemm.room.data;
  product.gemm.x_stride = GemmCudaStride(args.k);
  LaunchKernel(
      OrderKernel, GridOf(CeilDiv(product.gemm.x_stride, kThreads * 8), args.gemm.m),
      dim3(kThreads), 0, CudaStreamOf(stream), static_cast<const uint16_t*>(args.gemm.x),
      args.gemm.x_stride,
      reinterpret_cast<const int32_t*>(static_cast<const char*>(args.w) + layout.order_begin()),
      args.k, product.gemm.x_stride, static_cast<uint16_t*>(args.gemm.room.data));
  return product;
}

std::vector<GemmCudaArgs> MakeNumbers(const GemmCudaArgs& args, Stream& stream) {
  const WeightFormat format = args.gemm.weight->format();
  const GemmBricksLayout layout(format, args.n, args.k);
  const GemmRoomPlan plan = PlanOf(args);
  CHECK_LE(plan.bytes, args.gemm.room.bytes);
  GemmCudaArgs product = args;
  product.codes = false;
  product.w = static_cast<char*>(args.gemm.room.data) + plan.numbers_begin;
  product.w_stride = GemmCudaStride(args.k);
  const int entries = static_cast<int>(layout.scales_of_row());
  kLaunchers[static_cast<size_t>(codes::KindOf(format, args.k))](
      {.bricks = static_cast<const char*>(args.w),
       .out = static_cast<uint16_t*>(const_cast<void*>(product.w)),
       .brick_bytes = layout.brick_bytes,
       .num_bricks = layout.num_bricks,
       .num_all = layout.num_strips * layout.num_bricks,
       .n = args.n,
       .k = args.k,
       .stride = product.w_stride,
       .entry_bytes = static_cast<int>(layout.entry_bytes),
       .row_entries = entries,
       .quarter_shift = entries == 1   ? 2
                        : entries == 2 ? 1
                                       : 0,
       .has_zero_points = format.has_zero_points},
      stream);
  return ProductsOf(product, layout.range_bricks * kBrickColumns);
}

}  // namespace graft
