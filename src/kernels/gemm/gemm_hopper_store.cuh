// How the sums of Hopper's GEMM reach y, for unswapped tiles (swapped ones:
// gemm_hopper_swapped_store.cuh). They go by way of shared memory, so that y gets whole cache
// lines. The code is short on purpose: a decode step runs it once per launch, and instructions that
// have to come from memory queue behind W.
//
// Where one warpgroup multiplies, the sums go into the ring, where W was, and all four warps write
// the rows that exist. Where several do, every warp has a little room of its own for its 16 rows,
// and no warp waits for another. In both cases an element is (sum + bias) + old y.
#pragma once

#include <cstdint>

#include "kernels/common/cuda_shared.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/gemm/gemm_hopper_delta.cuh"
#include "kernels/gemm/gemm_hopper_silu.cuh"

namespace graft {

#if defined(GRAFT_HOPPER)

// A barrier of the multiplying warpgroup, where there is only one.
__device__ __forceinline__ void GroupSync() { SyncThreads<128, 1>(); }

// The bias of four columns, all of which exist.
template <typename Args>
__device__ __forceinline__ float4 LoadBias(const Args& args, int column) {
  const float* bias = args.bias + column;  // need not be aligned
  return {bias[0], bias[1], bias[2], bias[3]};
}
__device__ __forceinline__ float4 Sum(const float4& a, const float4& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}
// The residual: what was there before, and `value` times the scale.
__device__ __forceinline__ float4 Residual(float scale, const float4& value, const float4& old) {
  return {fmaf(scale, value.x, old.x), fmaf(scale, value.y, old.y), fmaf(scale, value.z, old.z),
          fmaf(scale, value.w, old.w)};
}
template <typename Args>
__device__ __forceinline__ void StoreElement(const Args& args, int row, int column, float value) {
  if (row >= args.m || column >= args.n) return;
  float* y = args.y + row * args.y_stride + column;
  if (args.bias != nullptr) value += args.bias[column];
  if (args.accumulate) value = fmaf(args.scale, value, *y);
  if (args.delta.values != nullptr) value += args.delta.values[row * args.y_stride + column];
  *y = value;
}

// Stores eight elements of SwiGLU's result, or as many of them as exist.
template <typename Args>
__device__ __forceinline__ void StoreActivated(const Args& args, int row, int column,
                                               const uint4& pairs) {
  uint16_t* out = ActivatedAt(args, row, column);
  if (args.activation.vectors) {
    *reinterpret_cast<uint4*>(out) = pairs;
    return;
  }
  const uint32_t words[] = {pairs.x, pairs.y, pairs.z, pairs.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (column + i < args.n / 2) out[i] = static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16));
  }
}

// The layout of one warpgroup's sums in shared memory: rows of kColumns floats without gaps, in
// pieces of 8. The pieces of a row change places, so that the writes of four rows fall on different
// banks.
template <int kColumns>
struct GemmSumsLayout {
  static constexpr int kPieces = kColumns / 8;
  static constexpr int kRowBytes = kColumns * 4;
  static constexpr int kKeys = kPieces % 4 == 0 ? 4 : kPieces % 2 == 0 ? 2 : 1;
  // The piece's number is combined with this.
  static __device__ __forceinline__ int Key(int row) {
    return kKeys == 4 ? row % 4 : kKeys == 2 ? row / 2 % 2 : 0;
  }
  static __device__ __forceinline__ uint32_t Offset(int row, int piece) {
    return row * kRowBytes + (piece ^ Key(row)) * 32;
  }
};

// Divides a row's kUnits units among lanes: neighbouring lanes have neighbouring units. A thread
// goes on to other rows in the same columns, in steps of a multiple of 4 rows, for which Key is the
// same.
template <int kUnits>
struct GemmRowLanes {
  static constexpr int kLanes = kUnits > 16 ? 32 : kUnits > 8 ? 16 : kUnits > 4 ? 8 : 4;  // per row
  static constexpr int kUnitsPerLane = (kUnits + kLanes - 1) / kLanes;
  static constexpr int kRowStep = 128 / kLanes;
};

// Stores the 64 rows of a tile, where one warpgroup multiplies. Called by all of its threads.
template <typename Shape>
class GemmTileStore {
 public:
  static constexpr int kColumns = Shape::kColumns;
  static constexpr int kBatch = 4;  // quads (four floats) that a thread has in flight
  struct Old {
    float4 quads[kBatch];
  };

  // This many rows of sums fit where a stage's boxes of W lie, which have 128 bytes per column of
  // the tile.
  static constexpr int kRowsPerStage = Shape::kBoxes == 1 ? 32 : 64;

  // delta: the place in shared memory of this tile's share of args.delta, or 0.
  __device__ GemmTileStore(const typename Shape::Args& args, int row, int column_tile,
                           uint32_t delta)
      : args_(args),
        row_(row),
        column_tile_(column_tile),
        delta_(delta),
        thread_(static_cast<int>(threadIdx.x) % 128) {}

  // Loads the old y for this thread's first sums. To be called long before Store.
  __device__ __forceinline__ void LoadOld(Old& old) const {
    if (args_.accumulate && args_.quads) LoadOld(thread_ / Lanes::kLanes, 64, old);
  }

  // scratch: room for rows_at_once rows (32 or 64). No product may read it any more once all warps
  // have called Store.
  __device__ __forceinline__ void Store(uint32_t scratch, int rows_at_once, Old& old,
                                        const float (&sum)[kColumns / 2]) const {
#pragma unroll 1
    for (int first = 0; first < 64 && row_ + first < args_.m; first += rows_at_once) {
      GroupSync();
      const int rows = min(args_.m - row_ - first, rows_at_once);
      Write(scratch, first, rows, sum);
      GroupSync();
      if constexpr (Shape::kActivates) {
        if (args_.activation.out != nullptr) {
          Activate(scratch, first, rows);
          continue;
        }
      }
      if constexpr (Shape::kLora && Shape::kTransposed) {
        if (args_.rounded != nullptr) {
          Round(scratch, first, rows);
          continue;
        }
      }
      if (args_.quads) {
        StoreQuads(scratch, first, rows, old);
      } else {
        StoreElements(scratch, first, rows);
      }
    }
  }

 private:
  using Layout = GemmSumsLayout<kColumns>;
  using Lanes = GemmRowLanes<kColumns / 4>;
  static constexpr int kBatchRows = kBatch / Lanes::kUnitsPerLane * Lanes::kRowStep;
  static constexpr int kHalf = kColumns / 2;

  __device__ int Column() const { return column_tile_ * kColumns; }
  __device__ float4* Quad(int row, int column) const {
    return reinterpret_cast<float4*>(args_.y + row * args_.y_stride + column);
  }
  // Element `j` of a thread's batch lies BatchRow(j) rows after the batch's first row, in column
  // BatchColumn(j) of the tile.
  static __device__ int BatchRow(int j) { return j / Lanes::kUnitsPerLane * Lanes::kRowStep; }
  __device__ int BatchColumn(int j) const {
    return (thread_ % Lanes::kLanes + j % Lanes::kUnitsPerLane * Lanes::kLanes) * 4;
  }
  __device__ bool HasColumn(int column) const {
    return column < kColumns && Column() + column < args_.n;
  }

  // Loads the old y of a batch that begins at row `row` of the tile. Rows from `end` on are left
  // out.
  __device__ __forceinline__ void LoadOld(int row, int end, Old& old) const {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int at = row + BatchRow(j);
      if (at < end && row_ + at < args_.m && HasColumn(BatchColumn(j))) {
        old.quads[j] = *Quad(row_ + at, Column() + BatchColumn(j));
      }
    }
  }

  // Writes `rows` rows of sums, from row `first` of the tile on, to shared memory.
  __device__ __forceinline__ void Write(uint32_t scratch, int first, int rows,
                                        const float (&sum)[kColumns / 2]) const {
    const int warp_row = thread_ / 32 * 16 - first;
    if (warp_row < 0 || warp_row >= rows) return;
    const int row = warp_row + thread_ % 32 / 4;
    const uint32_t base = scratch + row * Layout::kRowBytes + thread_ % 4 * 8;
#pragma unroll
    for (int key = 0; key < Layout::kKeys; ++key) {
      const uint32_t place = base + (key ^ Layout::Key(row)) * 32;
#pragma unroll
      for (int piece = key; piece < Layout::kPieces; piece += Layout::kKeys) {
        const float* sums = sum + piece * 4;
        const uint32_t address = place + (piece - key) * 32;
        StoreSharedFloat2(address, sums[0], sums[1]);
        StoreSharedFloat2(address + 8 * Layout::kRowBytes, sums[2], sums[3]);
      }
    }
  }

  // Stores `rows` rows from row `first` of the tile on. If first is 0, `old` has the old y of the
  // first batch.
  __device__ __forceinline__ void StoreQuads(uint32_t scratch, int first, int rows,
                                             Old& old) const {
    const int first_row = thread_ / Lanes::kLanes;
    float4 bias[Lanes::kUnitsPerLane] = {};
    if (args_.bias != nullptr) {
#pragma unroll
      for (int j = 0; j < Lanes::kUnitsPerLane; ++j) {
        if (HasColumn(BatchColumn(j))) bias[j] = LoadBias(args_, Column() + BatchColumn(j));
      }
    }
#pragma unroll 1
    for (int row = first_row; row < rows; row += kBatchRows) {
      if (args_.accumulate && (first > 0 || row > first_row)) {
        LoadOld(first + row, first + rows, old);
      }
      float4 value[kBatch];
      float4 delta[kBatch];
      if (args_.delta.values != nullptr) {
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const int at = row + BatchRow(j);
          if (at < rows && HasColumn(BatchColumn(j))) {
            delta[j] =
                delta_ != 0
                    ? LoadSharedFloat4(delta_ + (first + at) * kColumns * 4 + BatchColumn(j) * 4)
                    : DeltaAt(row_ + first + at, Column() + BatchColumn(j));
          }
        }
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int at = min(row + BatchRow(j), rows - 1);
        const int column = min(BatchColumn(j), kColumns - 4);
        value[j] = LoadSharedFloat4(scratch + at * Layout::kRowBytes +
                                    (column / 8 ^ Layout::Key(first_row)) * 32 + column % 8 * 4);
        if (args_.bias != nullptr) value[j] = Sum(value[j], bias[j % Lanes::kUnitsPerLane]);
        if (args_.accumulate) value[j] = Residual(args_.scale, value[j], old.quads[j]);
        if (args_.delta.values != nullptr) value[j] = Sum(value[j], delta[j]);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int at = row + BatchRow(j);
        if (at >= rows || !HasColumn(BatchColumn(j))) continue;
        *Quad(row_ + first + at, Column() + BatchColumn(j)) = value[j];
      }
    }
  }

  __device__ __forceinline__ void StoreElements(uint32_t scratch, int first, int rows) const {
#pragma unroll 1
    for (int i = thread_; i < rows * kColumns; i += 128) {
      const int row = i / kColumns;
      const int column = i % kColumns;
      const float sum = LoadSharedFloat(scratch + Layout::Offset(row, column / 8) + column % 8 * 4);
      StoreElement(args_, row_ + first + row, Column() + column, sum);
    }
  }

  // Writes to GemmEpilogue::rounded, in y's place. A thread takes two elements at a time.
  __device__ __forceinline__ void Round(uint32_t scratch, int first, int rows) const {
#pragma unroll 1
    for (int i = thread_; i < rows * kHalf; i += 128) {
      const int row = i / kHalf;
      const int column = i % kHalf * 2;
      const uint32_t at = scratch + Layout::Offset(row, column / 8) + column % 8 * 4;
      const uint32_t pair = NarrowPair<Shape::kType>(LoadSharedFloat(at), LoadSharedFloat(at + 4));
      uint16_t* const out =
          args_.rounded + int64_t{row_ + first + row} * args_.n + Column() + column;
      if (Column() + column < args_.n) out[0] = static_cast<uint16_t>(pair);
      if (Column() + column + 1 < args_.n) out[1] = static_cast<uint16_t>(pair >> 16);
    }
  }

  // A thread takes eight elements at a time. The sums of gate and up lie half a row apart.
  __device__ __forceinline__ void Activate(uint32_t scratch, int first, int rows) const {
    constexpr int kPieces = kHalf / 8;
#pragma unroll 1
    for (int i = thread_; i < rows * kPieces; i += 128) {
      const int row = i / kPieces;
      const int piece = i % kPieces;
      const int column = column_tile_ * kHalf + piece * 8;
      if (column >= args_.n / 2) continue;
      // Four of eight neighbouring lanes begin with the second half of their piece, so that the
      // lanes hit different banks.
      const int turn = piece / 4 % 2;
      const uint32_t gate_address = scratch + Layout::Offset(row, piece);
      const uint32_t up_address = scratch + Layout::Offset(row, piece + kPieces);
      uint2 halves[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int half = j ^ turn;
        float4 gate = LoadSharedFloat4(gate_address + half * 16);
        float4 up = LoadSharedFloat4(up_address + half * 16);
        if (args_.bias != nullptr) {
          gate = Sum(gate, HalfBias(0, column + half * 4));
          up = Sum(up, HalfBias(args_.n / 2, column + half * 4));
        }
        if (args_.delta.values != nullptr) {
          gate = Sum(gate, HalfDelta(first + row, 0, piece * 8 + half * 4));
          up = Sum(up, HalfDelta(first + row, 1, piece * 8 + half * 4));
        }
        Keep(first + row, column + half * 4, gate, up);
        halves[j] = {NarrowPair<Shape::kType>(SiluTimes(gate.x, up.x), SiluTimes(gate.y, up.y)),
                     NarrowPair<Shape::kType>(SiluTimes(gate.z, up.z), SiluTimes(gate.w, up.w))};
      }
      const uint2 left = turn == 0 ? halves[0] : halves[1];
      const uint2 right = turn == 0 ? halves[1] : halves[0];
      StoreActivated(args_, row_ + first + row, column, {left.x, left.y, right.x, right.y});
    }
  }

  // Keeps four columns of a row of the tile.
  __device__ __forceinline__ void Keep(int row, int column, float4 gate, float4 up) const {
    const float gates[] = {gate.x, gate.y, gate.z, gate.w};
    const float ups[] = {up.x, up.y, up.z, up.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      KeepPair<Shape>(args_, row_ + row, column + i, gates[i], ups[i]);
      RoundPair<Shape>(args_, row_ + row, column + i, gates[i], ups[i]);
    }
  }

  // The delta of four columns, all of which exist.
  __device__ __forceinline__ float4 DeltaAt(int row, int column) const {
    return *reinterpret_cast<const float4*>(args_.delta.values + row * args_.y_stride + column);
  }
  // The delta of four columns in the gate's half of the tile (half 0) or in up's (half 1).
  __device__ float4 HalfDelta(int tile_row, int half, int tile_column) const {
    if (delta_ != 0) {
      return LoadSharedFloat4(delta_ + half * args_.delta.SecondBox() +
                              (tile_row * kHalf + tile_column) * 4);
    }
    const int row = row_ + tile_row;
    const int begin = half * (args_.n / 2);
    const int column = column_tile_ * kHalf + tile_column;
    if (args_.activation.vectors) return DeltaAt(row, begin + column);
    const float* delta = args_.delta.values + row * args_.y_stride + begin;
    const int last = args_.n / 2 - 1;  // columns past it are not stored
    return {delta[min(column, last)], delta[min(column + 1, last)], delta[min(column + 2, last)],
            delta[min(column + 3, last)]};
  }

  // The bias of four columns of the gate (begin 0) or of up (begin n / 2).
  __device__ float4 HalfBias(int begin, int column) const {
    const float* bias = args_.bias + begin;
    const int last = args_.n / 2 - 1;  // columns past it are not stored
    return {bias[min(column, last)], bias[min(column + 1, last)], bias[min(column + 2, last)],
            bias[min(column + 3, last)]};
  }

  const typename Shape::Args& args_;
  const int row_;
  const int column_tile_;
  const uint32_t delta_;
  const int thread_;
};

// Stores the 16 rows of one warp, where several warpgroups multiply. Called by that warp.
template <typename Shape>
class GemmWarpStore {
 public:
  static constexpr int kColumns = Shape::kColumns;

  // staging: room for all warps, 16 rows of 128 bytes each. row: the warpgroup's first.
  __device__ GemmWarpStore(const typename Shape::Args& args, uint32_t staging, int row,
                           int column_tile)
      : args_(args),
        scratch_(staging + threadIdx.x / 32 * (16 * 128)),
        row_(row + static_cast<int>(threadIdx.x) % 128 / 32 * 16),
        column_(column_tile * kColumns),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void Store(const float (&sum)[kColumns / 2]) const {
    if (args_.quads) {
#pragma unroll
      for (int first = 0; first < kColumns; first += kChunkColumns) {
        StoreQuads(first, min(kColumns - first, kChunkColumns), sum + first / 2);
      }
    } else {
#pragma unroll
      for (int first = 0; first < kColumns; first += kChunkColumns) {
        StoreElements(first, min(kColumns - first, kChunkColumns), sum + first / 2);
      }
    }
  }

 private:
  static constexpr int kChunkColumns = 32;
  static_assert(kColumns % 16 == 0);

  // A row of 128 bytes is four pieces of 32, which change places so that neither the writes nor the
  // reads of a warp fall on the same bank.
  __device__ uint32_t Address(int row, int column) const {
    return scratch_ + row * 128 + ((column / 8) ^ (row % 4)) * 32 + column % 8 * 4;
  }

  __device__ __forceinline__ void Write(int width, const float* sums) const {
#pragma unroll
    for (int i = 0; i < kChunkColumns / 4; ++i) {
      if (i / 2 * 8 >= width) continue;
      const float* pair = sums + i / 2 * 4 + i % 2 * 2;
      StoreSharedFloat2(Address(lane_ / 4 + i % 2 * 8, i / 2 * 8 + lane_ % 4 * 2), pair[0],
                        pair[1]);
    }
    __syncwarp();
  }

  // Stores a chunk of `width` columns that begins at column `first` of the tile.
  __device__ __forceinline__ void StoreQuads(int first, int width, const float* sums) const {
    const int lane_column = lane_ % 8 * 4;
    const int column = lane_column < width ? column_ + first + lane_column : args_.n;
    float4 old[4] = {};
    if (args_.accumulate) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = row_ + i * 4 + lane_ / 8;
        if (row < args_.m && column < args_.n) old[i] = *Quad(row, column);
      }
    }
    float4 bias = {};
    if (args_.bias != nullptr && column < args_.n) bias = LoadBias(args_, column);
    Write(width, sums);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i * 4 + lane_ / 8;
      float4 value = LoadSharedFloat4(Address(row, lane_column));
      if (row_ + row >= args_.m || column >= args_.n) continue;
      if (args_.bias != nullptr) value = Sum(value, bias);
      if (args_.accumulate) value = Residual(args_.scale, value, old[i]);
      *Quad(row_ + row, column) = value;
    }
    __syncwarp();
  }

  __device__ __forceinline__ void StoreElements(int first, int width, const float* sums) const {
    Write(width, sums);
#pragma unroll 1
    for (int row = 0; row < 16; ++row) {
      if (lane_ >= width) continue;
      StoreElement(args_, row_ + row, column_ + first + lane_,
                   LoadSharedFloat(Address(row, lane_)));
    }
    __syncwarp();
  }

  __device__ float4* Quad(int row, int column) const {
    return reinterpret_cast<float4*>(args_.y + row * args_.y_stride + column);
  }

  const typename Shape::Args& args_;
  const uint32_t scratch_;
  const int row_;
  const int column_;
  const int lane_;
};

#endif  // GRAFT_HOPPER

}  // namespace graft
