// How a block multiplies h by some columns of B^T in bf16 and fp16, for up to kTileRows rows at a
// time. The bits of a row do not depend on its batch: parts of h are added in order, and ranks are
// multiplied tile by tile.
#pragma once

#include "kernels/lora/lora_block.cuh"

namespace graft::lora {

constexpr int kUnit = 64;  // columns that a warp multiplies at a time

template <bool kIsBf16>
struct Element;

template <>
struct Element<true> {
  // h is split into this many numbers of falling size. Their sum is h to the last bit or nearly so;
  // two would leave an error of 4e-6.
  static constexpr int kParts = 3;
  static __device__ __forceinline__ uint32_t Pack(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  // What Pack loses of v.
  static __device__ __forceinline__ float Rest(float v) {
    return v - __bfloat162float(__float2bfloat16_rn(v));
  }
};

// fp16 reaches from 6e-8 to 65504, so each row of h is brought into that range by a power of two.
template <>
struct Element<false> {
  static constexpr int kParts = 2;
  static __device__ __forceinline__ uint32_t Pack(float first, float second) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  static __device__ __forceinline__ float Rest(float v) {
    return v - __half2float(__float2half_rn(v));
  }
};

// The exponent e for which 2^e brings `peak`, the largest magnitude of a row of h, into [2^13,
// 2^14). It is clamped so that 2^e and 2^-e are both normal numbers.
__device__ __forceinline__ int ExponentFor(float peak) {
  const int exponent = static_cast<int>(__float_as_uint(peak) >> 23 & 255);
  return min(126, max(-126, 13 + 127 - exponent));
}
__device__ __forceinline__ float PowerOfTwo(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
}

// Floats between two rows of h in shared memory, such that no two lanes of LoadH hit the same bank.
__host__ __device__ constexpr int HStride(int64_t rank_max) {
  return RankTiles(rank_max) * kTileRanks + 4;
}

// Feeds the ring with what one Pass multiplies.
__device__ __forceinline__ void FeedExpand(const KernelArgs& args, const RowTable& table, int rank,
                                           int column, int columns, Ring& ring) {
#pragma unroll 1
  for (int tile = 0; tile < RankTiles(rank); ++tile) {
    ring.Feed(table.Row(tile) + column, rank - tile * kTileRanks, columns, args.vectors);
  }
}

// Store: the matrix that receives scale * h B^T, laid out like y, and how it receives it. kColumns:
// the most columns of a Pass.
template <bool kIsBf16, typename Store, int kColumns = kChunk>
class Expander {
 public:
  __device__ __forceinline__ Expander(const KernelArgs& args, Ring& ring, float* h)
      : args_(args),
        ring_(ring),
        h_(h),
        h_stride_(HStride(args.lora.h_stride)),
        scales_(h + kTileRows * HStride(args.lora.h_stride)),
        warp_(static_cast<int>(threadIdx.x) / 32),
        g_(static_cast<int>(threadIdx.x) % 32 / 4),
        t_(static_cast<int>(threadIdx.x) % 4) {}

  // Forms h for the first kTileRows of rows [row_begin, row_end), and the factor for each row's
  // products. The threads must meet before and after it.
  __device__ __forceinline__ void SumH(int row_begin, int row_end, int slice,
                                       const LoraMatrix& matrix) const {
    const int rows = min(kTileRows, row_end - row_begin);
    if constexpr (kIsBf16) {
      SumRows(row_begin, rows, slice, matrix);
    } else {
      SumAndScaleRows(row_begin, rows, slice, matrix);
    }
  }

  // Multiplies columns [column, column_end) of the slice, at most kColumns, for the rows of the
  // last SumH.
  __device__ __forceinline__ void Pass(int row, int row_end, int slice, int rank, int column,
                                       int column_end) {
    Sums sum = {};
    Multiply(row, row_end, rank, sum);
#pragma unroll
    for (int unit = 0; unit < kUnitsOfWarp; ++unit) {
      const int at = column + (warp_ + unit * kWarps) * kUnit + g_ * 8;
      PutUnit(row, row_end, slice, at, column_end, sum[unit]);
    }
  }

  // A lane's sums: 2 rows of 8 columns in each of its units. DeltaOf picks those of one row.
  static constexpr int kUnitsOfWarp = kColumns / kUnit / kWarps;
  using Sums = float[kUnitsOfWarp][4][4];

  // sum += h B^T for the rows of the last SumH, by the next stages of the ring.
  __device__ __forceinline__ void Multiply(int row, int row_end, int rank, Sums& sum) {
#pragma unroll 1
    for (int begin = 0; begin < rank; begin += kTileRanks) {
      const HTile h = LoadH(begin, row_end - row);
      const uint32_t stage = ring_.Wait();
#pragma unroll
      for (int unit = 0; unit < kUnitsOfWarp; ++unit) {
        MultiplyUnit(stage + (warp_ + unit * kWarps) * kUnit * 2, rank - begin, h, sum[unit]);
      }
      ring_.Release();
    }
  }

  // What a unit's sums give eight columns of row 2 t + i of the pass.
  __device__ __forceinline__ void DeltaOf(const float (&sum)[4][4], int i,
                                          float (&delta)[8]) const {
    const int row = 2 * t_ + i;
    const float scale = scales_[2 * row];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float v = sum[j / 2][j % 2 * 2 + i];
      if constexpr (!kIsBf16) v *= scales_[2 * row + 1];
      delta[j] = __fmul_rn(scale, v);
    }
  }

 private:
  // Element `rank` of h; zero past the matrix's ranks.
  __device__ __forceinline__ float SumOfParts(int row, int rank, int slice, int num_ranks) const {
    float parts[kLoraSplits];
#pragma unroll
    for (int split = 0; split < kLoraSplits; ++split) {
      parts[split] = rank < num_ranks ? __ldcg(HOf(args_.lora, split, slice, row) + rank) : 0.0f;
    }
    float sum = 0.0f;
#pragma unroll
    for (const float part : parts) sum += part;
    return sum;
  }

  // The threads are divided among the rows, up to 128 threads for one row: every further round of
  // reads costs a latency of the second-level cache.
  __device__ __forceinline__ void SumRows(int row_begin, int rows, int slice,
                                          const LoraMatrix& matrix) const {
    static_assert(kMultiplyThreads == 1 << 7 && kTileRows << 4 == kMultiplyThreads);
    const int thread = static_cast<int>(threadIdx.x);
    const int shift = rows == 1 ? 7 : rows == 2 ? 6 : rows <= 4 ? 5 : 4;
    const int row = thread >> shift;
    if (row >= rows) return;
    const int ranks = RankTiles(matrix.rank) * kTileRanks;
#pragma unroll 1
    for (int rank = thread & ((1 << shift) - 1); rank < ranks; rank += 1 << shift) {
      h_[row * h_stride_ + rank] = SumOfParts(row_begin + row, rank, slice, matrix.rank);
    }
    scales_[2 * row] = matrix.scale * args_.lora.scale;
  }

  // One warp per row. The row's largest element decides the power of two for all of them.
  __device__ __forceinline__ void SumAndScaleRows(int row_begin, int rows, int slice,
                                                  const LoraMatrix& matrix) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int ranks = RankTiles(matrix.rank) * kTileRanks;
#pragma unroll 1
    for (int row = warp_; row < rows; row += kWarps) {
      float peak = 0.0f;
      float* const to = h_ + row * h_stride_;
#pragma unroll 1
      for (int rank = lane; rank < ranks; rank += 32) {
        to[rank] = SumOfParts(row_begin + row, rank, slice, matrix.rank);
        peak = fmaxf(peak, fabsf(to[rank]));
      }
#pragma unroll
      for (int i = 16; i > 0; i /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, i));
      const int exponent = ExponentFor(peak);
      for (int rank = lane; rank < ranks; rank += 32) to[rank] *= PowerOfTwo(exponent);
      if (lane == 0) {
        scales_[2 * row] = matrix.scale * args_.lora.scale;
        scales_[2 * row + 1] = PowerOfTwo(-exponent);
      }
    }
  }

  struct HTile {
    uint32_t parts[Element<kIsBf16>::kParts][2];
  };

  // Ranks t, t+4, t+8 and t+12 of the tile for row g, in the order that the tensor cores expect.
  __device__ __forceinline__ HTile LoadH(int rank_begin, int rows) const {
    float v[4] = {};
    if (g_ < rows) {
      const float* from = h_ + g_ * h_stride_ + rank_begin + t_;
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = from[4 * i];
    }
    HTile h;
#pragma unroll
    for (auto& pair : h.parts) {
      pair[0] = Element<kIsBf16>::Pack(v[0], v[1]);
      pair[1] = Element<kIsBf16>::Pack(v[2], v[3]);
#pragma unroll
      for (float& value : v) value = Element<kIsBf16>::Rest(value);
    }
    return h;
  }

  __device__ __forceinline__ void MultiplyUnit(uint32_t stage, int ranks, const HTile& h,
                                               float (&sum)[4][4]) const {
    uint32_t b[4][4];  // [rank t + 4i][two columns]
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int rank = t_ + 4 * i;
      const uint4 v = LoadStage(stage + rank * RowBytesOfB(kColumns) + g_ * 16, rank < ranks);
      b[i][0] = v.x, b[i][1] = v.y, b[i][2] = v.z, b[i][3] = v.w;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // columns 2i and 2i + 1 of the lane's eight
      const uint32_t a0 = __byte_perm(b[0][i], b[1][i], 0x5410);
      const uint32_t a1 = __byte_perm(b[0][i], b[1][i], 0x7632);
      const uint32_t a2 = __byte_perm(b[2][i], b[3][i], 0x5410);
      const uint32_t a3 = __byte_perm(b[2][i], b[3][i], 0x7632);
#pragma unroll
      for (const auto& pair : h.parts) {
        MultiplyAdd<Half<kIsBf16>>(sum[i], {a0, a1, a2, a3}, pair[0], pair[1]);
      }
    }
  }

  // Stores a lane's share of a tile, which is eight columns of two rows.
  __device__ __forceinline__ void PutUnit(int pass_row, int row_end, int slice, int column,
                                          int column_end, const float (&sum)[4][4]) const {
    const LoraArgs& lora = args_.lora;
    float* to =
        Store::Of(lora) + (pass_row + 2 * t_) * lora.y_stride + lora.slice_begin[slice] + column;
#pragma unroll
    for (int i = 0; i < 2; ++i, to += lora.y_stride) {
      const int row = 2 * t_ + i;
      if (pass_row + row >= row_end || column >= column_end) return;
      float delta[8];
      DeltaOf(sum, i, delta);
      Store::Put(args_, to, column_end - column, delta);
    }
  }

  const KernelArgs& args_;
  Ring& ring_;
  float* const h_;  // [kTileRows][h_stride_]
  const int h_stride_;
  float* const scales_;     // [kTileRows][2]
  const int warp_, g_, t_;  // the lane is 4g + t
};

}  // namespace graft::lora
