// SwiGLU's activation in the epilogue of Hopper's GEMM: writes silu(gate) * up instead of y. A tile
// has columns of the gate and the same columns of up. The copy engine fetches both, so that W and
// its bias keep their layout and every call may choose anew. The two sums of a pair are the ones
// that y would have got, so the bits are GatedActivation's.
//
// In an unswapped tile the left half of the columns is the gate's and the right half up's, from a
// map of W as [2, n / 2, k]. The two values of a pair lie in one thread, half of its registers
// apart or, where one warpgroup multiplies, half a row apart in shared memory
// (gemm_hopper_store.cuh). In a swapped tile pieces of both take turns
// (gemm_hopper_swapped_store.cuh). This file has what all of them share, and the epilogue of
// unswapped tiles of several warpgroups.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/common/cuda_shared.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/gated_activation/gated_activation_cuda.cuh"
#include "tensor/dtype.h"

namespace graft {

struct GemmActivation {
  void* out;     // [m, n / 2] in the weight's type; null: y is written instead
  bool vectors;  // rows of `out`, and of what is rounded, begin and end on 16-byte borders
};

#if defined(GRAFT_HOPPER)

template <DType kType>
__device__ __forceinline__ uint32_t NarrowPair(float first, float second) {
  if constexpr (kType == DType::kBF16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

template <typename Args>
__device__ __forceinline__ uint16_t* ActivatedAt(const Args& args, int row, int column) {
  return static_cast<uint16_t*>(args.activation.out) + int64_t{row} * (args.n / 2) + column;
}

// Writes a pair of y's sums, where the row is wanted beside the activation
// (GemmEpilogue::kept_rows).
template <typename Shape>
__device__ __forceinline__ void KeepPair(const typename Shape::Args& args, int row, int column,
                                         float gate, float up) {
  if constexpr (Shape::kLora) {
    if (row < args.kept_begin || row >= args.kept_end || column >= args.n / 2) return;
    float* const y = args.y + row * args.y_stride + column;
    y[0] = gate;
    y[args.n / 2] = up;
  }
}

// Writes such a pair rounded, if that is wanted (GemmEpilogue::rounded).
template <typename Shape>
__device__ __forceinline__ void RoundPair(const typename Shape::Args& args, int row, int column,
                                          float gate, float up) {
  if constexpr (Shape::kLora) {
    if (args.rounded == nullptr || row >= args.m || column >= args.n / 2) return;
    uint16_t* const rounded = args.rounded + int64_t{row} * args.n + column;
    const uint32_t pair = NarrowPair<Shape::kType>(gate, up);
    rounded[0] = static_cast<uint16_t>(pair);
    rounded[args.n / 2] = static_cast<uint16_t>(pair >> 16);
  }
}

// Used by each multiplying warp of a kernel with several warpgroups and unswapped tiles. Shape:
// that kernel's.
template <typename Shape>
struct GemmActivator {
  const typename Shape::Args& args;
  const uint32_t staging;
  static constexpr int kHalf = Shape::kColumns / 2;  // columns of the result
  static constexpr int kPieces = kHalf / 8;
  // Pieces per round: as many as a warp's 16 rows of 128 bytes in shared memory hold. More would
  // take registers from the sums.
  static constexpr int kChunk = 8;
  using Chunk = uint32_t[kChunk][2];  // elements 2 (lane % 4) and the next of both rows' pieces

  // Stores the sums of a tile's 64 rows that this warpgroup has; the first of them is `first_row`.
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
      Keep(row + lane / 4, column + first * 8 + lane % 4 * 2, count, gate, up);
      if constexpr (Shape::kLora) {
        if (args.rounded != nullptr) {
          Round(args.rounded, args.n / 2, row, column + first * 8, count, lane, gate);
          Round(args.rounded + args.n / 2, args.n / 2, row, column + first * 8, count, lane, up);
        }
      }
      Chunk pairs;
#pragma unroll
      for (int i = 0; i < 2 * count; ++i) {
        pairs[i / 2][i % 2] = NarrowPair<Shape::kType>(SiluTimes(gate[2 * i], up[2 * i]),
                                                       SiluTimes(gate[2 * i + 1], up[2 * i + 1]));
      }
      StoreChunk(ActivatedAt(args, 0, 0), args.n / 2, args.n / 2, row, column + first * 8, count,
                 lane, pairs);
    }
  }

  // Stores these sums themselves, rounded.
  __device__ __forceinline__ void StoreRounded(int column_tile, int first_row,
                                               const float (&sum)[Shape::kColumns / 2]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = first_row + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    if (row >= args.m) return;
#pragma unroll
    for (int first = 0; first < 2 * kPieces; first += kChunk) {
      Round(args.rounded, args.n, row, column_tile * Shape::kColumns + first * 8,
            min(2 * kPieces - first, kChunk), lane, sum + 4 * first);
    }
  }

 private:
  // Adds the bias to `count` pieces: in each, two neighbouring columns of each of two rows.
  __device__ __forceinline__ void AddBias(int column, int count, float* gate, float* up) const {
    const int n = args.n / 2;
#pragma unroll
    for (int j = 0; j < count; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = min(column + j * 8 + i, n - 1);  // clamped: results past n are not stored
        const float gate_bias = args.bias[at];
        const float up_bias = args.bias[n + at];
        gate[4 * j + i] += gate_bias;
        gate[4 * j + 2 + i] += gate_bias;
        up[4 * j + i] += up_bias;
        up[4 * j + 2 + i] += up_bias;
      }
    }
  }

  // Keeps `count` pieces: two neighbouring columns of `row` and of the row eight below.
  __device__ __forceinline__ void Keep(int row, int column, int count, const float* gate,
                                       const float* up) const {
    if constexpr (Shape::kLora) {
      if (row + 8 < args.kept_begin || row >= args.kept_end) return;
#pragma unroll
      for (int i = 0; i < 4 * count; ++i) {
        KeepPair<Shape>(args, row + i % 4 / 2 * 8, column + i / 4 * 8 + i % 2, gate[i], up[i]);
      }
    }
  }

  // Rounds and stores `count` pieces to the first `columns` columns of rows n elements apart.
  __device__ __forceinline__ void Round(uint16_t* out, int columns, int row, int column, int count,
                                        int lane, const float* sums) const {
    Chunk pairs;
#pragma unroll
    for (int i = 0; i < 2 * count; ++i) {
      pairs[i / 2][i % 2] = NarrowPair<Shape::kType>(sums[2 * i], sums[2 * i + 1]);
    }
    StoreChunk(out, args.n, columns, row, column, count, lane, pairs);
  }

  // Stores to n / 2 columns of rows `stride` elements apart, by way of shared memory, so that
  // global memory gets whole cache lines. The pieces of a 128-byte row change places, so that the
  // accesses of eight rows fall on different banks.
  __device__ __forceinline__ void StoreChunk(uint16_t* out, int stride, int columns, int row,
                                             int column, int count, int lane,
                                             const Chunk& pairs) const {
    const uint32_t scratch = staging + threadIdx.x / 32 * (16 * 128);
#pragma unroll
    for (int j = 0; j < count; j += 2) {
      // There are two pieces of 16 rows each: every lane names the place of eight elements.
      const uint32_t address = scratch + lane % 16 * 128 + (((j + lane / 16) ^ (lane % 8)) * 16);
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
          "r"(pairs[j][0]), "r"(pairs[j][1]), "r"(pairs[j + 1][0]), "r"(pairs[j + 1][1])
          : "memory");
    }
    __syncwarp();
    out += int64_t{row} * stride + column;
    if (args.activation.vectors) {
      StoreVectors(out, stride, columns, row, column, count, lane, scratch);
    } else {
      StoreElements(out, stride, columns, row, column, count, lane, scratch);
    }
    __syncwarp();
  }

  // `out` points to the chunk's first row and column.
  __device__ __forceinline__ void StoreVectors(uint16_t* out, int stride, int columns, int row,
                                               int column, int count, int lane,
                                               uint32_t scratch) const {
#pragma unroll
    for (int i = 0; i < (count + 1) / 2; ++i) {
      const int local_row = (i * 32 + lane) / count;
      const int piece = (i * 32 + lane) % count;
      const uint4 v =
          LoadShared16(scratch + local_row % 16 * 128 + ((piece ^ (local_row % 8)) * 16));
      if (local_row >= 16 || row + local_row >= args.m || column + piece * 8 >= columns) {
        continue;
      }
      *reinterpret_cast<uint4*>(out + int64_t{local_row} * stride + piece * 8) = v;
    }
  }
  __device__ __forceinline__ void StoreElements(uint16_t* out, int stride, int columns, int row,
                                                int column, int count, int lane,
                                                uint32_t scratch) const {
#pragma unroll 1
    for (int i = lane; i < 16 * 8 * count; i += 32) {
      const int local_row = i / (8 * count);
      const int local_column = i % (8 * count);
      uint16_t v;
      asm volatile("ld.shared.u16 %0, [%1];"
                   : "=h"(v)
                   : "r"(scratch + local_row * 128 +
                         ((local_column / 8 ^ local_row % 8) * 16 + local_column % 8 * 2))
                   : "memory");
      if (row + local_row >= args.m || column + local_column >= columns) continue;
      out[int64_t{local_row} * stride + local_column] = v;
    }
  }
};

#endif  // GRAFT_HOPPER

}  // namespace graft
