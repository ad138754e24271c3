// How the GEMM by mma.sync (gemm_mma.cuh) brings x and W to shared memory, and from there to its
// warps' registers.
#pragma once

#include "kernels/common/cuda_cache.cuh"
#include "kernels/common/cuda_copy.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/gemm/gemm_mma_shape.cuh"

namespace graft::mma {

// A thread's share of each stage: pieces of 16 bytes. Its pieces of an operand lie below each
// other, so that what differs from one to the next is a constant in shared memory, and a number of
// rows in global memory.
template <typename Shape>
class Loader {
 public:
  __device__ __forceinline__ Loader(const typename Shape::Args& args, uint32_t ring, int row,
                                    int column_tile)
      : args_(args), ring_(ring), row_(row) {
    constexpr int kWRowBytes = Shape::kTransposed ? Shape::kLyingBytes : Shape::kRowBytes;
    w_place_ = PlaceOf<kWRowBytes>(Thread() / kWPiecesOfRow, Thread() % kWPiecesOfRow);
    x_place_ = Shape::kWBytes +
               PlaceOf<Shape::kRowBytes>(Thread() / kXPiecesOfRow, Thread() % kXPiecesOfRow);
    SetW(Shape::ColumnsOf(args, column_tile));
    SetX();
  }

  // Nothing is read where a piece is not there, so its address need not be one. W does not leave
  // the second-level cache first, although it is read once: see CopyLineOnceAsync.
  __device__ __forceinline__ void LoadW(int step, int stage) const {
    const uint32_t target = ring_ + stage * Shape::kStageBytes + w_place_;
    if constexpr (Shape::kTransposed) {
      constexpr int kStep = kWRowStep * Shape::kLyingBytes;
      const int first = step * Shape::kDepth + Thread() / kWPiecesOfRow;
#pragma unroll
      for (int i = 0; i < kWPieces; ++i) {
        const int row = first + i * kWRowStep;
        const bool present = w_is_there_ != 0 && row < args_.k;
        CopyLineBytesAsync(target + i * kStep, Piece(args_.w, w_units_[0] + row * w_step_),
                           present ? 16 : 0);
      }
    } else {
      constexpr int kStep = kWRowStep * Shape::kRowBytes;
      const uint32_t column = step * (Shape::kDepth / 8);
      // A row's last eight may end in zeros.
      const bool has_column = step * Shape::kDepth + Thread() % kWPiecesOfRow * 8 < args_.k;
#pragma unroll
      for (int i = 0; i < kWPieces; ++i) {
        const bool present = has_column && (w_is_there_ >> i & 1) != 0;
        CopyLineBytesAsync(target + i * kStep, Piece(args_.w, WUnit(i) + column), present ? 16 : 0);
      }
    }
  }

  __device__ __forceinline__ void LoadX(int step, int stage) const {
    constexpr int kStep = kXRowStep * Shape::kRowBytes;
    const uint32_t target = ring_ + stage * Shape::kStageBytes + x_place_;
    const uint32_t unit = x_unit_ + step * (Shape::kDepth / 8);
    const int column = step * Shape::kDepth + Thread() % kXPiecesOfRow * 8;
    // A piece's elements that exist; may be negative. But where W is read transposed, k is a
    // multiple of eight.
    const int count = Shape::kTransposed ? min(8, args_.k - column) : column < args_.k ? 8 : 0;
#pragma unroll
    for (int i = 0; i < kXPieces; ++i) {
      const bool present = count > 0 && (x_is_there_ >> i & 1) != 0;
      if constexpr (Shape::kCopyX) {
        const int row = row_ + Thread() / kXPiecesOfRow + i * kXRowStep;
        StoreShared16(
            target + i * kStep,
            LoadElements(present ? args_.x + row * args_.x_stride : nullptr, column, args_.k));
      } else {
        CopyLineBytesAsync(target + i * kStep, Piece(args_.x, unit + i * x_step_),
                           present ? count * 2 : 0);
      }
    }
  }

 private:
  static constexpr int kWPiecesOfRow = Shape::kTransposed ? Shape::kColumns / 8 : Shape::kDepth / 8;
  static constexpr int kXPiecesOfRow = Shape::kDepth / 8;
  static constexpr int kWRowStep = Shape::kThreads / kWPiecesOfRow;
  static constexpr int kXRowStep = Shape::kThreads / kXPiecesOfRow;
  static constexpr int kWPieces = Shape::kColumns * Shape::kDepth / 8 / Shape::kThreads;
  static constexpr int kXPieces = Shape::kRows * Shape::kDepth / 8 / Shape::kThreads;
  static_assert(kWPieces * Shape::kThreads * 8 == Shape::kColumns * Shape::kDepth);
  static_assert(kXPieces * Shape::kThreads * 8 == Shape::kRows * Shape::kDepth);
  static_assert(kWRowStep % 8 == 0 && kXRowStep % 8 == 0);  // for PlaceOf

  static __device__ int Thread() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ const uint16_t* Piece(const uint16_t* from, uint32_t unit) {
    return from + int64_t{unit} * 8;
  }

  // Rows' beginnings are counted in pieces, so that 32 bits suffice for 64 GiB. Where this thread's
  // rows of W are even numbers of eight apart, they are equally far apart with an activation, too.
  static constexpr bool kEvenRows = kWRowStep % 16 == 0;

  __device__ __forceinline__ uint32_t WUnit(int i) const {
    return kEvenRows ? w_units_[0] + i * w_step_ : w_units_[i];
  }

  __device__ __forceinline__ void SetW(GemmTileColumns columns) {
    const auto stride = static_cast<uint32_t>(args_.w_stride / 8);
    w_step_ = (columns.gap == 0 ? kWRowStep : kWRowStep / 2) * stride;
    if constexpr (Shape::kTransposed) {
      const int column = columns.first + Thread() % kWPiecesOfRow * 8;
      w_is_there_ = column < args_.w_stride ? 1 : 0;
      w_units_[0] = static_cast<uint32_t>(column / 8);
      w_step_ = stride;
    } else {
#pragma unroll
      for (int i = 0; i < kWPieces; ++i) {
        const int local = Thread() / kWPiecesOfRow + i * kWRowStep;
        int column = columns.first + local;
        bool exists = column < args_.n;
        if (columns.gap != 0) {
          column = columns.first + local / 16 * 8 + local % 8;
          exists = column < columns.gap;
          column += local / 8 % 2 * columns.gap;
        }
        if (exists) w_is_there_ |= 1u << i;
        if (i > 0 && kEvenRows) continue;
        w_units_[i] = static_cast<uint32_t>(column) * stride + Thread() % kWPiecesOfRow;
      }
    }
  }
  __device__ __forceinline__ void SetX() {
    const auto stride = static_cast<uint32_t>(args_.x_stride / 8);
    const int row = row_ + Thread() / kXPiecesOfRow;
    x_unit_ = static_cast<uint32_t>(row) * stride + Thread() % kXPiecesOfRow;
    x_step_ = kXRowStep * stride;
#pragma unroll
    for (int i = 0; i < kXPieces; ++i) {
      if (row + i * kXRowStep < args_.m) x_is_there_ |= 1u << i;
    }
  }

  const typename Shape::Args& args_;
  const uint32_t ring_;
  const int row_;
  int w_place_, x_place_;
  uint32_t w_is_there_ = 0, x_is_there_ = 0;  // a bit for each piece
  uint32_t w_units_[Shape::kTransposed || kEvenRows ? 1 : kWPieces];
  uint32_t w_step_;  // units from one of this thread's rows to the next; transposed: a row of k
  uint32_t x_unit_, x_step_;
};

// A warp's operands of 16 columns of k.
template <typename Shape>
struct Fragments {
  uint32_t w[Shape::kColumnParts][4];
  uint32_t x[(Shape::kRowParts + 1) / 2][4];
};

// Where lanes read x from a stage. What a lane names is the row of a matrix of 8 x 8 elements, see
// LoadMatrices.
template <typename Shape>
class XReader {
 public:
  // Counted from where x begins in a stage.
  __device__ __forceinline__ XReader() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    place_ = PlaceOf<Shape::kRowBytes>(RowOf(WarpPlace<Shape>(), lane), lane / 8 % 2);
  }

  // x: where it begins in the stage.
  __device__ __forceinline__ void Read(uint32_t x, int piece, Fragments<Shape>& out) const {
    // Two pieces of 16 bytes, in a stage with rows of four or more, change places by one bit.
#pragma unroll
    for (int i = 0; i < (Shape::kRowParts + 1) / 2; ++i) {
      LoadMatrices(x + (place_ ^ piece * 32) + i * 16 * Shape::kRowBytes, out.x[i]);
    }
  }

  // The row of x of a warp's first matrices. A single part has rows for two matrices alone; the
  // other lanes name them once more.
  static __device__ __forceinline__ int RowOf(const WarpPlace<Shape>& warp, int lane) {
    return warp.row + lane % 8 + (Shape::kRowParts > 1 ? lane / 16 * 8 : 0);
  }

 private:
  int place_;
};

// The place in an operand that has the tile's columns side by side in its 16 rows of k, or ranks.
template <typename Shape>
__device__ __forceinline__ int LyingPlace(const WarpPlace<Shape>& warp, int lane) {
  return PlaceOf<Shape::kLyingBytes>(lane % 8 + lane / 16 * 8, warp.column / 8 + lane / 8 % 2);
}

// Reads a warp's operands from a stage.
template <typename Shape>
class Reader {
 public:
  __device__ __forceinline__ Reader() {
    const WarpPlace<Shape> warp;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (Shape::kTransposed) {
      w_place_ = LyingPlace<Shape>(warp, lane);
    } else {
      w_place_ = PlaceOf<Shape::kRowBytes>(warp.column + lane % 16, lane / 16);
    }
  }

  // Reads piece `piece` of the stage at `stage`.
  __device__ __forceinline__ void Read(uint32_t stage, int piece, Fragments<Shape>& out) const {
#pragma unroll
    for (int i = 0; i < Shape::kColumnParts; ++i) {
      if constexpr (Shape::kTransposed) {
        LoadMatricesTransposed(stage + (w_place_ ^ i * 32) + piece * 16 * Shape::kLyingBytes,
                               out.w[i]);
      } else {
        LoadMatrices(stage + (w_place_ ^ piece * 32) + i * 16 * Shape::kRowBytes, out.w[i]);
      }
    }
    x_.Read(stage + Shape::kWBytes, piece, out);
  }

 private:
  const XReader<Shape> x_;
  int w_place_;
};

template <typename Shape>
__device__ __forceinline__ void Multiply(const Fragments<Shape>& operands, Sums<Shape>& sums) {
#pragma unroll
  for (int c = 0; c < Shape::kColumnParts; ++c) {
#pragma unroll
    for (int r = 0; r < Shape::kRowParts; ++r) {
      const uint32_t(&x)[4] = operands.x[r / 2];
      MultiplyAdd<typename Shape::Element>(sums[c][r], operands.w[c], x[r % 2 * 2],
                                           x[r % 2 * 2 + 1]);
    }
  }
}

}  // namespace graft::mma
