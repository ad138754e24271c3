// y += scale * h B^T in bf16 and fp16. A block takes kChunk columns of a slice; its B is on its way
// before h is there. The bits of a row do not depend on its batch: parts of h are added in order,
// ranks multiplied tile by tile.
#include "kernels/lora/lora_block.cuh"

namespace graft::lora {
namespace {

constexpr int kUnit = 64;  // columns that a warp multiplies at a time
constexpr int kUnitsOfWarp = kChunk / kUnit / kWarps;

template <bool kIsBf16>
struct Element;

template <>
struct Element<true> {
  // h as so many numbers of falling size: together they are h to the last bit or nearly. Two leave
  // 4e-6.
  static constexpr int kParts = 3;
  static __device__ __forceinline__ uint32_t Pack(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  // v minus what Pack keeps of it.
  static __device__ __forceinline__ float Rest(float v) {
    return v - __bfloat162float(__float2bfloat16_rn(v));
  }
};

// fp16 knows 6e-8 to 65504: h is brought there by a power of two for each row.
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

// The exponent e that brings a row of h, whose largest magnitude is `peak`, to [2^13, 2^14) by
// 2^e; held where 2^e and 2^-e are both normal numbers.
__device__ __forceinline__ int ExponentFor(float peak) {
  const int exponent = static_cast<int>(__float_as_uint(peak) >> 23 & 255);
  return min(126, max(-126, 13 + 127 - exponent));
}
__device__ __forceinline__ float PowerOfTwo(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
}

// Floats between two rows of h in shared memory: no two lanes of LoadH in one bank.
__host__ __device__ constexpr int HStride(int64_t rank_max) {
  return RankTiles(rank_max) * kTileRanks + 4;
}

__device__ __forceinline__ void FeedExpand(const KernelArgs& args, const BlockRows& rows, int slice,
                                           int column, int columns, char* table_bytes, Ring& ring) {
  const LoraMatrix matrix = MatrixOf(args.lora, rows.adapter_slot, slice);
  const RowTable table(table_bytes, matrix.b_rows, matrix.rank);
  for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
#pragma unroll 1
    for (int tile = 0; tile < RankTiles(matrix.rank); ++tile) {
      ring.Feed(table.Row(tile) + column, matrix.rank - tile * kTileRanks, columns, args.vectors);
    }
  }
}

template <bool kIsBf16>
class Expander {
 public:
  __device__ __forceinline__ Expander(const KernelArgs& args, const BlockRows& rows,
                                      const LoraMatrix& matrix, int slice, int column,
                                      int column_end, const Ring& ring, float* h)
      : args_(args),
        slice_(slice),
        column_(column),
        column_end_(column_end),
        row_end_(rows.end),
        ring_(ring),
        h_(h),
        h_stride_(HStride(args.lora.h_stride)),
        scales_(h + kTileRows * HStride(args.lora.h_stride)),
        rank_(matrix.rank),
        warp_(static_cast<int>(threadIdx.x) / 32),
        g_(static_cast<int>(threadIdx.x) % 32 / 4),
        t_(static_cast<int>(threadIdx.x) % 4) {
    for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
      if (row > rows.begin) SyncThreads<kMultiplyThreads>();
      SumH(row, matrix.scale);
      SyncThreads<kMultiplyThreads>();
      Pass(row);
    }
  }

 private:
  // h of the pass's rows, a warp per row, and what each row's products are to be multiplied with.
  __device__ __forceinline__ void SumH(int row_begin, float scale) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int ranks = RankTiles(rank_) * kTileRanks;
#pragma unroll 1
    for (int row = warp_; row < min(kTileRows, row_end_ - row_begin); row += kWarps) {
      float peak = 0.0f;
      float* const to = h_ + row * h_stride_;
#pragma unroll 1
      for (int rank = lane; rank < ranks; rank += 32) {
        float parts[kLoraSplits];
#pragma unroll
        for (int split = 0; split < kLoraSplits; ++split) {
          parts[split] =
              rank < rank_ ? __ldcg(HOf(args_.lora, split, slice_, row_begin + row) + rank) : 0.0f;
        }
        float sum = 0.0f;
#pragma unroll
        for (const float part : parts) sum += part;
        to[rank] = sum;
        peak = fmaxf(peak, fabsf(sum));
      }
      float undo = 1.0f;
      if constexpr (!kIsBf16) {
#pragma unroll
        for (int i = 16; i > 0; i /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, i));
        const int exponent = ExponentFor(peak);
        for (int rank = lane; rank < ranks; rank += 32) to[rank] *= PowerOfTwo(exponent);
        undo = PowerOfTwo(-exponent);
      }
      if (lane == 0) {
        scales_[2 * row] = scale;
        scales_[2 * row + 1] = undo;
      }
    }
  }

  struct HTile {
    uint32_t parts[Element<kIsBf16>::kParts][2];
  };

  // Ranks t, t+4, t+8 and t+12 of the tile for row g, as the tensor cores take them.
  __device__ __forceinline__ HTile LoadH(int rank_begin, int row) const {
    float v[4] = {};
    if (row + g_ < row_end_) {
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

  __device__ __forceinline__ void Pass(int row) {
    float sum[kUnitsOfWarp][4][4] = {};
#pragma unroll 1
    for (int begin = 0; begin < rank_; begin += kTileRanks) {
      const HTile h = LoadH(begin, row);
      const uint32_t stage = ring_.Wait();
#pragma unroll
      for (int unit = 0; unit < kUnitsOfWarp; ++unit) {
        MultiplyUnit(stage + (warp_ + unit * kWarps) * kUnit * 2, rank_ - begin, h, sum[unit]);
      }
      ring_.Release();
    }
#pragma unroll
    for (int unit = 0; unit < kUnitsOfWarp; ++unit) {
      AddToY(row, 2 * t_, column_ + (warp_ + unit * kWarps) * kUnit + g_ * 8, sum[unit]);
    }
  }

  __device__ __forceinline__ void MultiplyUnit(uint32_t stage, int ranks, const HTile& h,
                                               float (&sum)[4][4]) const {
    uint32_t b[4][4];  // [rank t + 4i][two columns]
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int rank = t_ + 4 * i;
      const uint4 v = LoadStage(stage + rank * kRowBytesOfB + g_ * 16, rank < ranks);
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
        MultiplyAdd<kIsBf16>(sum[i], a0, a1, a2, a3, pair[0], pair[1]);
      }
    }
  }

  // A lane's share of a tile is eight columns of two rows.
  __device__ __forceinline__ void AddToY(int pass_row, int row, int column,
                                         const float (&sum)[4][4]) const {
    const LoraArgs& lora = args_.lora;
    float* y = lora.y + (pass_row + row) * lora.y_stride + lora.slice_begin[slice_] + column;
#pragma unroll
    for (int i = 0; i < 2; ++i, y += lora.y_stride) {
      if (pass_row + row + i >= row_end_ || column >= column_end_) return;
      const float scale = scales_[2 * (row + i)];
      float delta[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        float v = sum[j / 2][j % 2 * 2 + i];
        if constexpr (!kIsBf16) v *= scales_[2 * (row + i) + 1];
        delta[j] = __fmul_rn(scale, v);
      }
      if (args_.vectors && args_.add_in_l2) {
        AddInL2(y, {delta[0], delta[1], delta[2], delta[3]});
        AddInL2(y + 4, {delta[4], delta[5], delta[6], delta[7]});
      } else if (args_.vectors) {
        float4* vectors = reinterpret_cast<float4*>(y);
        float4 low = vectors[0];
        float4 high = vectors[1];
        low.x += delta[0], low.y += delta[1], low.z += delta[2], low.w += delta[3];
        high.x += delta[4], high.y += delta[5], high.z += delta[6], high.w += delta[7];
        vectors[0] = low;
        vectors[1] = high;
      } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          if (column + j < column_end_) y[j] += delta[j];
        }
      }
    }
  }

  const KernelArgs& args_;
  const int slice_, column_, column_end_, row_end_;
  Ring ring_;
  float* const h_;  // [kTileRows][h_stride_]
  const int h_stride_;
  float* const scales_;  // [kTileRows][2]
  const int rank_;
  const int warp_, g_, t_;  // the lane is 4g + t
};

// kBlocks: per multiprocessor. Five keep some sums in local memory.
template <bool kIsBf16, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    ExpandKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  LetNextStart();
  char* const barriers = shared + args.depth * kTileRanks * kRowBytesOfB;
  Ring ring(shared, barriers, args.depth, kRowBytesOfB);
  const auto slices = static_cast<unsigned>(args.lora.num_slices);
  const unsigned row_split = blockIdx.z / slices;
  const int slice = static_cast<int>(blockIdx.z - row_split * slices);
  const int column = static_cast<int>(blockIdx.x) * kChunk;
  const int column_end = min(column + kChunk, static_cast<int>(args.lora.slice_n[slice]));
  const BlockRows rows(args.lora, static_cast<int>(row_split), kTileRows);
  const bool has_work = rows.begin < rows.end && column < column_end;
  if (threadIdx.x == 0) ring.Init();
  __syncthreads();
  if (threadIdx.x >= kMultiplyThreads) {
    if (has_work)
      FeedExpand(args, rows, slice, column, column_end - column, barriers + Ring::kBarrierBytes,
                 ring);
    return;
  }
  LoraMatrix matrix;
  if (has_work) matrix = MatrixOf(args.lora, rows.adapter_slot, slice);
  WaitForPrevious();  // also without work: who waits for this kernel waits for those before it
  if (matrix.rank == 0) return;
  Expander<kIsBf16>(args, rows, matrix, slice, column, column_end, ring,
                    reinterpret_cast<float*>(barriers + Ring::kBarrierBytes +
                                             RowTable::Bytes(args.lora.h_stride)));
}

}  // namespace

int ExpandSharedBytes(int depth, int64_t rank_max) {
  return depth * kTileRanks * kRowBytesOfB + Ring::kBarrierBytes + RowTable::Bytes(rank_max) +
         kTileRows * (HStride(rank_max) + 2) * 4;
}

void LaunchExpand(const KernelArgs& args, const Launch& launch) {
  const bool is_bf16 = args.lora.dtype == DType::kBF16;
  const unsigned blocks = launch.grid.x * launch.grid.y * launch.grid.z;
  if (blocks <= 4 * kMultiprocessors) {
    if (is_bf16) return LaunchOf<ExpandKernel<true, 4>>(args, launch);
    return LaunchOf<ExpandKernel<false, 4>>(args, launch);
  }
  if (is_bf16) return LaunchOf<ExpandKernel<true, 5>>(args, launch);
  LaunchOf<ExpandKernel<false, 5>>(args, launch);
}

}  // namespace graft::lora
