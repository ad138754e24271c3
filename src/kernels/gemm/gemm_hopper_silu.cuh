// SwiGLU's middle in the epilogue of Hopper's GEMM: silu(gate) * up instead of y. The left half of
// a tile's columns are the gate's, the right half up's of the same numbers: the copy engine fetches
// both, from a map of W as [2, n / 2, k], so that W and its bias lie as ever and every call chooses
// anew. The sums of a pair then lie in one thread, half of its registers apart, and are those that
// y would have got: the bits are SiluMul's.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/common/cuda_tma.cuh"
#include "kernels/silu_mul/silu_mul_cuda.cuh"
#include "tensor/dtype.h"

namespace graft {

struct GemmActivation {
  void* out;     // [m, n / 2] of the weight's type; null: y is written
  bool pairs;    // may be written 4 bytes at a time
  bool vectors;  // ... 16 bytes
};

#if defined(GRAFT_HOPPER)

// Shape: of the GEMM's kernel. By a multiplying warp.
template <typename Shape>
struct GemmActivator {
  const typename Shape::Args& args;
  const uint32_t staging;
  static constexpr int kHalf = Shape::kColumns / 2;  // columns of the result
  static constexpr int kPieces = kHalf / 8;
  // Pieces at a time: what a warp's 16 rows of 128 bytes of shared memory hold. More would take
  // registers from the sums.
  static constexpr int kChunk = 8;
  using Chunk = uint32_t[kChunk][2];  // elements 2 (lane % 4) and the next of both rows' pieces

  // The sums of the warpgroup's 64 rows of a tile, the first of which is `first_row`.
  __device__ __forceinline__ void Store(int column_tile, int first_row,
                                        float (&sum)[Shape::kColumns / 2]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    if (row >= args.m) return;
    const int column = column_tile * kHalf;
#pragma unroll
    for (int first = 0; first < kPieces; first += kChunk) {
      const int count = min(kPieces - first, kChunk);
      float* gate = sum + 4 * first;
      float* up = gate + 4 * kPieces;
      if (args.bias != nullptr) AddBias(column + first * 8 + lane % 4 * 2, count, gate, up);
      Chunk pairs;
#pragma unroll
      for (int i = 0; i < 2 * count; ++i) {
        pairs[i / 2][i % 2] =
            Narrow(SiluTimes(gate[2 * i], up[2 * i]), SiluTimes(gate[2 * i + 1], up[2 * i + 1]));
      }
      if (Shape::kStaged && args.activation.vectors) {
        StoreStaged(row, column + first * 8, count, lane, pairs);
      } else {
        StorePairs(row + lane / 4, column + first * 8 + lane % 4 * 2, count, pairs);
      }
    }
  }

 private:
  // To two neighbours each of two rows, of `count` pieces.
  __device__ __forceinline__ void AddBias(int column, int count, float* gate, float* up) const {
    const int n = args.n / 2;
#pragma unroll
    for (int j = 0; j < count; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = min(column + j * 8 + i, n - 1);  // those past n are nobody's
        const float gate_bias = args.bias[at];
        const float up_bias = args.bias[n + at];
        gate[4 * j + i] += gate_bias;
        gate[4 * j + 2 + i] += gate_bias;
        up[4 * j + i] += up_bias;
        up[4 * j + 2 + i] += up_bias;
      }
    }
  }

  static __device__ __forceinline__ uint32_t Narrow(float first, float second) {
    if constexpr (Shape::kType == DType::kBF16) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
      return *reinterpret_cast<const uint32_t*>(&pair);
    } else {
      const __half2 pair = __floats2half2_rn(first, second);
      return *reinterpret_cast<const uint32_t*>(&pair);
    }
  }

  __device__ __forceinline__ uint16_t* Out(int row, int column) const {
    return static_cast<uint16_t*>(args.activation.out) + int64_t{row} * (args.n / 2) + column;
  }

  __device__ __forceinline__ void StorePairs(int row, int column, int count,
                                             const Chunk& pairs) const {
    const int left = args.n / 2 - column;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (row + half * 8 >= args.m) break;
      uint16_t* out = Out(row + half * 8, column);
      if (args.activation.pairs) {
#pragma unroll
        for (int j = 0; j < count; ++j) {
          if (j * 8 < left) *reinterpret_cast<uint32_t*>(out + j * 8) = pairs[j][half];
        }
      } else {
#pragma unroll
        for (int j = 0; j < count; ++j) {
          if (j * 8 < left) out[j * 8] = static_cast<uint16_t>(pairs[j][half]);
          if (j * 8 + 1 < left) out[j * 8 + 1] = static_cast<uint16_t>(pairs[j][half] >> 16);
        }
      }
    }
  }

  // By way of shared memory, in whole cache lines. The pieces of a row of 128 bytes are exchanged
  // so that eight rows' accesses fall on different banks.
  __device__ __forceinline__ void StoreStaged(int row, int column, int count, int lane,
                                              const Chunk& pairs) const {
    const uint32_t scratch = staging + threadIdx.x / 32 * (16 * 128);
#pragma unroll
    for (int j = 0; j < count; j += 2) {
      // Two pieces of 16 rows: a lane names the place of eight elements.
      const uint32_t address = scratch + lane % 16 * 128 + (((j + lane / 16) ^ (lane % 8)) * 16);
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
          "r"(pairs[j][0]), "r"(pairs[j][1]), "r"(pairs[j + 1][0]), "r"(pairs[j + 1][1])
          : "memory");
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      const int local_row = (i * 32 + lane) / count;
      const int piece = (i * 32 + lane) % count;
      uint4 v;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "r"(scratch + local_row * 128 + ((piece ^ (local_row % 8)) * 16))
                   : "memory");
      if (row + local_row >= args.m || column + piece * 8 >= args.n / 2) continue;
      *reinterpret_cast<uint4*>(Out(row + local_row, column + piece * 8)) = v;
    }
    __syncwarp();
  }
};

#endif  // GRAFT_HOPPER

}  // namespace graft
