// How the GEMM by mma.sync (gemm_mma.cuh) of codes brings bricks and x to shared memory, and makes
// its warps' operands of them in registers.
#pragma once

#include "kernels/common/cuda_copy.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/gemm/code_pairs.h"
#include "kernels/gemm/gemm_codes_shape.cuh"
#include "kernels/gemm/gemm_mma_operands.cuh"

namespace graft::codes {

// NF4's numbers as a kernel's table has them: entry `byte` is that of its low half, then of its
// high one. All threads of a block write it, before a barrier.
template <int kThreads, int kCopies>
__device__ __forceinline__ void WriteTable(uint32_t table) {
  constexpr float kNumbers[16] = {
      kNormal4Numbers[0],  kNormal4Numbers[1],  kNormal4Numbers[2],  kNormal4Numbers[3],
      kNormal4Numbers[4],  kNormal4Numbers[5],  kNormal4Numbers[6],  kNormal4Numbers[7],
      kNormal4Numbers[8],  kNormal4Numbers[9],  kNormal4Numbers[10], kNormal4Numbers[11],
      kNormal4Numbers[12], kNormal4Numbers[13], kNormal4Numbers[14], kNormal4Numbers[15]};
  for (int i = static_cast<int>(threadIdx.x); i < 256 * kCopies; i += kThreads) {
    const int byte = i / kCopies;
    float low = 0.0f, high = 0.0f;
#pragma unroll
    for (int code = 0; code < 16; ++code) {
      if (byte % 16 == code) low = kNumbers[code];
      if (byte / 16 == code) high = kNumbers[code];
    }
    StoreSharedFloat2(table + i * 8, low, high);
  }
}

// A lane's scale and zero point of a row. The scale is fp32, or bf16 in both halves.
template <Kind kKind>
struct RowScale {
  std::conditional_t<IsWide(kKind), float, uint32_t> scale;
  uint32_t minus = BitsOf(kKind) == 4 ? kMinusMiddle4 : 0;  // in both halves; not of NF4

  __device__ __forceinline__ void Read(uint32_t entry, bool has_zero_points) {
    if constexpr (IsWide(kKind)) {
      scale = LoadSharedFloat(entry);
      if (kKind != Kind::kNormal4 && has_zero_points) minus = Both(LoadSharedHalf(entry + 4));
    } else {
      scale = Both(LoadSharedHalf(entry));
    }
  }
};

// Pair `i` of a word's. table: where this lane's copy of NF4's table begins.
template <Kind kKind, int kTableCopies>
__device__ __forceinline__ uint32_t NumbersOf(uint32_t word, int i, const RowScale<kKind>& row,
                                              uint32_t table) {
  if constexpr (kKind == Kind::kNormal4) {
    const float2 pair = LoadSharedFloat2(table + (word >> 8 * i & 0xffu) * (kTableCopies * 8));
    return RoundedPair(pair.x * row.scale, pair.y * row.scale);
  } else if constexpr (BitsOf(kKind) == 4) {
    return ScaledPair(ValuePair4(word, i, row.minus), row.scale);
  } else if constexpr (IsWide(kKind)) {
    return ScaledPair(ValuePair8(word, i, row.minus), row.scale);
  } else {
    return ScaledPair(SignedPair8(word, i), row.scale);
  }
}

}  // namespace graft::codes

namespace graft::mma {

template <typename Shape>
requires Shape::kCodes class Loader<Shape> {
 public:
  __device__ __forceinline__ Loader(const typename Shape::Args& args, uint32_t ring, int row,
                                    int column_tile)
      : args_(args), ring_(ring), row_(row) {
    const GemmTileColumns columns = Shape::ColumnsOf(args, column_tile);
#pragma unroll
    for (int i = 0; i < kStripsEach; ++i) {
      const int local = (Warp() + i * kWarps) % Shape::kStrips;
      int column = columns.first + local * 8;
      bool exists = column < args.n;
      if (columns.gap != 0) {
        column = columns.first + local / 2 * 8;
        exists = column < columns.gap;
        column += local % 2 * columns.gap;
      }
      strips_[i] = args.bricks + column / 8 * args.strip_bytes + Lane() * 16;
      if (exists) is_there_ |= 1u << i;
    }
  }

  // A warp copies whole bricks. Nothing is read of one that is not there, which becomes zeros.
  __device__ __forceinline__ void LoadW(int step, int stage) const {
    const uint32_t target = ring_ + stage * Shape::StageBytes(args_) + Lane() * 16;
    const bool has_scales = Lane() * 16 < Shape::BrickBytes(args_) - Shape::kCodeBytes;
#pragma unroll
    for (int i = 0; i < kStripsEach; ++i) {
      const int range = (Warp() + i * kWarps) / Shape::kStrips;
      const int at_step = StepOf(step, range);
      const int bytes = HasBrick(i, at_step) ? 16 : 0;
      const char* const brick = strips_[i] + int64_t{at_step} * Shape::BrickBytes(args_);
      const uint32_t to = target + (Warp() + i * kWarps) * Shape::BrickBytes(args_);
#pragma unroll
      for (int at = 0; at < Shape::kCodeBytes; at += 512) {
        CopyLineBytesAsync(to + at, brick + at, bytes);
      }
      if (has_scales) {
        CopyLineBytesAsync(to + Shape::kCodeBytes, brick + Shape::kCodeBytes, bytes);
      }
    }
  }

  __device__ __forceinline__ void LoadX(int step, int stage) const {
    const uint32_t target = ring_ + stage * Shape::StageBytes(args_) + Shape::WBytes(args_);
    const int piece = Thread() % kPiecesOfRow;
#pragma unroll
    for (int i = 0; i < kXPieces; ++i) {
      const int of_all = Thread() / kPiecesOfRow + i * kRowStep;
      const int local = of_all % Shape::kRows;
      const int column = StepOf(step, of_all / Shape::kRows) * Shape::kDepth + piece * 8;
      const uint32_t to = target + PlaceOf<Shape::kRowBytes>(of_all, piece);
      const bool has_row = row_ + local < args_.m;
      const uint16_t* const x = args_.x + (row_ + local) * args_.x_stride;
      if constexpr (Shape::kCopyX) {
        StoreShared16(to, LoadElements(has_row ? x : nullptr, column, args_.k));
      } else {
        CopyLineBytesAsync(to, x + column, has_row && column < args_.k ? 16 : 0);
      }
    }
  }

 private:
  static constexpr int kWarps = Shape::kThreads / 32;
  static constexpr int kStripsEach = Shape::kGroups * Shape::kStrips / kWarps;
  static constexpr int kPiecesOfRow = Shape::kDepth / 8;
  static constexpr int kRowStep = Shape::kThreads / kPiecesOfRow;
  static constexpr int kXPieces = Shape::kGroups * Shape::kRows / kRowStep;
  static_assert(kXPieces * kRowStep == Shape::kGroups * Shape::kRows);

  __device__ __forceinline__ bool HasBrick(int i, int at_step) const {
    return (is_there_ >> i & 1) != 0 && (Shape::kGroups == 1 || at_step * Shape::kDepth < args_.k);
  }
  // The stage of k that group `group` has in stage `step`. The last may be past k.
  __device__ __forceinline__ int StepOf(int step, int group) const {
    return Shape::kGroups == 1 ? step : step + group * args_.range_steps;
  }

  static __device__ int Thread() { return static_cast<int>(threadIdx.x); }
  static __device__ int Warp() { return Thread() / 32; }
  static __device__ int Lane() { return Thread() % 32; }

  const typename Shape::Args& args_;
  const uint32_t ring_;
  const int row_;
  const char* strips_[kStripsEach];  // what this lane copies first of each
  uint32_t is_there_ = 0;            // a bit for each
};

// Words are read two pieces of 16 columns before numbers are made of them.
template <typename Shape>
requires Shape::kCodes class Reader<Shape> {
 public:
  __device__ __forceinline__ Reader(const typename Shape::Args& args, uint32_t ring) : args_(args) {
    const WarpPlace<Shape> warp;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int group = static_cast<int>(threadIdx.x) / (Shape::kThreads / Shape::kGroups);
    const int brick = (group * Shape::kStrips + warp.column / 8) * Shape::BrickBytes(args);
    word_place_ = brick + lane * 4;
    const int row_bytes = Shape::kWide ? args.row_entries * args.entry_bytes : 2;
    entry_place_ = brick + Shape::kCodeBytes + lane / 4 * row_bytes;
    x_place_ = PlaceOf<Shape::kRowBytes>(group * Shape::kRows + XReader<Shape>::RowOf(warp, lane),
                                         lane / 8 % 2);
    if (kPairsOfPieces) x_place_ ^= lane / 16 * 32;
    if constexpr (Shape::kTableCopies > 0) {
      table_ = ring + Shape::TableAt(args) + lane % Shape::kTableCopies * 8;
    }
  }

  // Writes what all readers of the block read, before its first barrier.
  static __device__ __forceinline__ void Prepare(const typename Shape::Args& args, uint32_t ring) {
    if constexpr (Shape::kTableCopies > 0) {
      codes::WriteTable<Shape::kThreads, Shape::kTableCopies>(ring + Shape::TableAt(args));
    }
  }

  // What piece `piece` of the stage at `stage` is made of, where a unit begins with it.
  __device__ __forceinline__ void ReadWords(uint32_t stage, int piece) {
    if (piece % Shape::kUnitPieces != 0) return;
    const int unit = piece / Shape::kUnitPieces;
    Unit& to = units_[unit % 2];
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      const uint32_t brick = stage + i * Shape::BrickBytes(args_);
      to.words[i] = LoadSharedWord(brick + word_place_ + unit * 128);
      if constexpr (Shape::kWide) {
        const int entry = (unit >> args_.unit_shift) * args_.entry_bytes;
        to.rows[i].Read(brick + entry_place_ + entry, args_.has_zero_points);
      } else if (unit == 0) {
        to.rows[i].Read(brick + entry_place_, false);
      }
    }
  }

  // x of piece `piece`. A single part of rows has that of the next one, too: to be read of even
  // pieces.
  __device__ __forceinline__ void ReadX(uint32_t stage, int piece) {
    if (kPairsOfPieces && piece % 2 != 0) return;
    const uint32_t x = stage + Shape::WBytes(args_) + (x_place_ ^ piece * 32);
    auto& to = x_[piece / (kPairsOfPieces ? 2 : 1) % 2];
#pragma unroll
    for (int i = 0; i < (Shape::kRowParts + 1) / 2; ++i) {
      LoadMatrices(x + i * 16 * Shape::kRowBytes, to[i]);
    }
  }

  __device__ __forceinline__ void MakeNumbers(int piece) {
    const Unit& from = units_[piece / Shape::kUnitPieces % 2];
    const int pair = piece % Shape::kUnitPieces * 2;
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      // One scale serves all units: those of unit 0, kept beside what the next stage brings.
      if (!Shape::kWide && piece == 0) rows_[i] = units_[0].rows[i];
      const auto& row = Shape::kWide ? from.rows[i] : rows_[i];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        w_[piece % 2][i / 2][half * 2 + i % 2] =
            codes::NumbersOf<Shape::kKind, Shape::kTableCopies>(from.words[i], pair + half, row,
                                                                table_);
      }
    }
  }

  __device__ __forceinline__ void Multiply(int piece, Sums<Shape>& sums) const {
    const auto& x = x_[piece / (kPairsOfPieces ? 2 : 1) % 2];
#pragma unroll
    for (int c = 0; c < Shape::kColumnParts; ++c) {
#pragma unroll
      for (int r = 0; r < Shape::kRowParts; ++r) {
        const int first = (kPairsOfPieces ? piece % 2 : r % 2) * 2;
        MultiplyAdd<Bfloat16>(sums[c][r], w_[piece % 2][c], x[r / 2][first], x[r / 2][first + 1]);
      }
    }
  }

 private:
  static constexpr int kStrips = Shape::kColumnParts * 2;  // of this warp
  static constexpr bool kPairsOfPieces = Shape::kRowParts == 1;
  struct Unit {
    uint32_t words[kStrips];
    codes::RowScale<Shape::kKind> rows[kStrips];
  };

  const typename Shape::Args& args_;
  Unit units_[2];
  codes::RowScale<Shape::kKind> rows_[kStrips];
  uint32_t x_[2][(Shape::kRowParts + 1) / 2][4];
  uint32_t w_[2][Shape::kColumnParts][4];
  int word_place_, entry_place_, x_place_;
  uint32_t table_ = 0;
};

}  // namespace graft::mma
