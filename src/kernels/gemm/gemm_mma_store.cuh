// What the GEMM by mma.sync (gemm_mma.cuh) makes of its sums. A lane has columns g and g + 8 of a
// part, g = lane / 4, of rows 2t and 2t + 1, t = lane % 4: eight lanes write 32 bytes of y side by
// side, which is what the second-level cache takes at once.
#pragma once

#include "kernels/common/cuda_mma.cuh"
#include "kernels/gated_activation/gated_activation_cuda.cuh"
#include "kernels/gemm/gemm_mma_shape.cuh"

namespace graft::mma {

// Where sums are over a second range of k: the first range's are in y, or here, to be added to y
// before them.
template <typename Shape>
struct RangeEnds {
  bool is_first = true;
  const Sums<Shape>* before = nullptr;
};

template <typename Shape>
class Store {
 public:
  // row: the tile's first.
  __device__ __forceinline__ Store(const typename Shape::Args& args, int row, int column_tile)
      : args_(args), columns_(Shape::ColumnsOf(args, column_tile)) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    row_ = row + place_.row + lane % 4 * 2;
    column_ = columns_.first + (columns_.gap == 0 ? place_.column : place_.column / 2) + lane / 4;
  }

  // Adds the sums over the first of two ranges of k to y, and clears them.
  __device__ __forceinline__ void PutFirst(Sums<Shape>& sums) const {
#pragma unroll
    for (int c = 0; c < Shape::kColumnParts; ++c) {
#pragma unroll
      for (int r = 0; r < Shape::kRowParts; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = column_ + c * 16 + i / 2 * 8;
          float* const y = args_.y + RowOf(r, i) * args_.y_stride + column;
          if (RowOf(r, i) < args_.m && column < args_.n) {
            *y = args_.accumulate ? fmaf(args_.scale, sums[c][r][i], *y) : sums[c][r][i];
          }
          sums[c][r][i] = 0.0f;
        }
      }
    }
  }

  __device__ __forceinline__ void Put(const Sums<Shape>& sums, const RangeEnds<Shape>& ends) const {
    if constexpr (!Shape::kTransposed) {
      if (args_.activated != nullptr) {
#pragma unroll
        for (int c = 0; c < Shape::kColumnParts; ++c) Activate(column_ + c * 8, sums[c]);
        return;
      }
    } else if constexpr (Shape::kLora) {
      if (args_.rounded != nullptr) {
#pragma unroll
        for (int c = 0; c < Shape::kColumnParts; ++c) Round(column_ + c * 16, sums[c]);
        return;
      }
    }
#pragma unroll
    for (int c = 0; c < Shape::kColumnParts; ++c) {
      Add(column_ + c * 16, sums[c], ends.before == nullptr ? nullptr : &(*ends.before)[c], ends);
    }
  }

 private:
  using Part = float[Shape::kRowParts][4];  // of 16 columns: [rows][column and row % 2]

  // The row of element `i`; that of its columns is i / 2.
  __device__ __forceinline__ int RowOf(int r, int i) const { return row_ + r * 8 + i % 2; }

  __device__ __forceinline__ void Add(int column, const Part& part, const Part* before,
                                      const RangeEnds<Shape>& ends) const {
    const bool accumulates = args_.accumulate || !ends.is_first;
    const bool exists[2] = {column < args_.n, column + 8 < args_.n};
    float bias[2] = {};
    if (args_.bias != nullptr) {
      if (exists[0]) bias[0] = args_.bias[column];
      if (exists[1]) bias[1] = args_.bias[column + 8];
    }
    float* const y = args_.y + column;
    // All is read before anything is written, so that the reads are under way together.
    float old[Shape::kRowParts][4];
    if (accumulates) {
#pragma unroll
      for (int r = 0; r < Shape::kRowParts; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          old[r][i] = 0.0f;
          if (RowOf(r, i) < args_.m && exists[i / 2]) {
            old[r][i] = y[RowOf(r, i) * args_.y_stride + i / 2 * 8];
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < Shape::kRowParts; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float value = part[r][i];
        if (args_.bias != nullptr) value += bias[i / 2];
        if (before != nullptr) {
          const float first = (*before)[r][i];
          old[r][i] = accumulates ? fmaf(args_.scale, first, old[r][i]) : first;
        }
        if (accumulates || before != nullptr) value = fmaf(args_.scale, value, old[r][i]);
        if (RowOf(r, i) < args_.m && exists[i / 2]) {
          y[RowOf(r, i) * args_.y_stride + i / 2 * 8] = value;
        }
      }
    }
  }

  // y in 16 bits, in its own place.
  __device__ __forceinline__ void Round(int column, const Part& part) const {
#pragma unroll
    for (int r = 0; r < Shape::kRowParts; ++r) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const uint32_t pair = PackPair<typename Shape::Element>(part[r][i], part[r][i + 1]);
        PutRounded(RowOf(r, 0), column + i / 2 * 8, static_cast<uint16_t>(pair));
        PutRounded(RowOf(r, 1), column + i / 2 * 8, static_cast<uint16_t>(pair >> 16));
      }
    }
  }
  __device__ __forceinline__ void PutRounded(int row, int column, uint16_t value) const {
    if (row < args_.m && column < args_.n) args_.rounded[int64_t{row} * args_.n + column] = value;
  }

  // The first of a part's columns are the gate's, and the second are up's.
  __device__ __forceinline__ void Activate(int column, const Part& part) const {
    const int half = args_.n / 2;
    if (column >= half) return;
    float gate_bias = 0.0f, up_bias = 0.0f;
    if (args_.bias != nullptr) {
      gate_bias = args_.bias[column];
      up_bias = args_.bias[half + column];
    }
#pragma unroll
    for (int r = 0; r < Shape::kRowParts; ++r) {
      float activated[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float gate = part[r][i];
        float up = part[r][2 + i];
        if (args_.bias != nullptr) {
          gate += gate_bias;
          up += up_bias;
        }
        if constexpr (Shape::kLora) Keep(RowOf(r, i), column, gate, up);
        activated[i] = SiluTimes(gate, up);
      }
      const uint32_t pair = PackPair<typename Shape::Element>(activated[0], activated[1]);
      uint16_t* const out = args_.activated + int64_t{RowOf(r, 0)} * half + column;
      if (RowOf(r, 0) < args_.m) out[0] = static_cast<uint16_t>(pair);
      if (RowOf(r, 1) < args_.m) out[half] = static_cast<uint16_t>(pair >> 16);
    }
  }

  // y beside the activation, of rows that are kept and, rounded, of all.
  __device__ __forceinline__ void Keep(int row, int column, float gate, float up) const {
    if (row >= args_.m) return;
    const int half = args_.n / 2;
    if (row >= args_.kept_begin && row < args_.kept_end) {
      float* const y = args_.y + row * args_.y_stride + column;
      y[0] = gate;
      y[half] = up;
    }
    if (args_.rounded != nullptr) {
      const uint32_t pair = PackPair<typename Shape::Element>(gate, up);
      PutRounded(row, column, static_cast<uint16_t>(pair));
      PutRounded(row, half + column, static_cast<uint16_t>(pair >> 16));
    }
  }

  const typename Shape::Args& args_;
  const WarpPlace<Shape> place_;
  const GemmTileColumns columns_;
  int row_, column_;  // this lane's first
};

// What a block makes of its sums: a Store for each use, so that nothing of it takes registers
// before.
template <typename Shape>
struct Ends {
  const typename Shape::Args& args;
  int row;
  int column_tile;

  __device__ __forceinline__ void First(Sums<Shape>& sums) const {
    Store<Shape>(args, row, column_tile).PutFirst(sums);
  }
  __device__ __forceinline__ void operator()(const Sums<Shape>& sums,
                                             const RangeEnds<Shape>& ends) const {
    Store<Shape>(args, row, column_tile).Put(sums, ends);
  }
};

}  // namespace graft::mma
