// How the sums of a swapped tile reach y. A warp has 16 rows of W, which are 16 columns of y; eight
// lanes hold eight neighbouring columns. These are whole sectors of memory already, so the sums
// need no way through shared memory and no warp waits for another. An element is (sum + bias) + old
// y.
//
// With an activation a warp has eight rows of W from the gate and the eight rows of up that belong
// to them. The copy engine fetches them so, from a map of W as [n / 16, 2, 8, k]. The two values of
// a pair lie in one thread, and the result has GatedActivation's bits.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm_hopper_silu.cuh"

namespace graft {

#if defined(GRAFT_HOPPER)

// Stores the sums of one warp.
template <typename Shape>
class GemmSwappedStore {
 public:
  static constexpr int kSums = Shape::kRows / 2;

  // row: the first row of the tile.
  __device__ GemmSwappedStore(const typename Shape::Args& args, int row, int column_tile)
      : args_(args),
        row_(row + static_cast<int>(threadIdx.x) % 4 * 2),
        first_(static_cast<int>(threadIdx.x) / 32 * 16),
        lane_column_(static_cast<int>(threadIdx.x) % 32 / 4),
        column_tile_(column_tile) {}

  // before: sums over an earlier range of k, which are added to y first; null: there is none.
  __device__ __forceinline__ void Store(float (&sum)[kSums], const float* before = nullptr) const {
    if (args_.activation.out != nullptr) return Activate(sum);
    const int column = column_tile_ * Shape::kColumns + first_ + lane_column_;
    const bool has_column[2] = {column < args_.n, column + 8 < args_.n};
    float bias[2] = {};
    if (args_.bias != nullptr) {
      if (has_column[0]) bias[0] = args_.bias[column];
      if (has_column[1]) bias[1] = args_.bias[column + 8];
    }
#pragma unroll
    for (int begin = 0; begin < kSums; begin += kBatch) {
      float old[kBatch] = {};
      if (args_.accumulate) {
#pragma unroll
        for (int i = 0; i < kBatch && begin + i < kSums; ++i) {
          if (Exists(begin + i, has_column)) old[i] = *At(begin + i, column);
        }
      }
#pragma unroll
      for (int i = 0; i < kBatch && begin + i < kSums; ++i) {
        if (!Exists(begin + i, has_column)) continue;
        float value = sum[begin + i];
        if (args_.bias != nullptr) value += bias[i % 4 / 2];
        if (before != nullptr) {
          const float first = before[begin + i];
          old[i] = args_.accumulate ? fmaf(args_.scale, first, old[i]) : first;
        }
        if (args_.accumulate || before != nullptr) value = fmaf(args_.scale, value, old[i]);
        *At(begin + i, column) = value;
      }
    }
  }

 private:
  // How many old elements of y a thread has in flight: as many as fit its registers beside the
  // sums.
  static constexpr int kBatch = Shape::kGroups == 1 ? kSums : Shape::kGroups == 2 ? 32 : 16;

  // The row of sum i. Its column in the warp's 16 is lane_column_ + 8 (i % 4 / 2).
  __device__ __forceinline__ int RowOf(int i) const { return row_ + i / 4 * 8 + i % 2; }
  __device__ __forceinline__ bool Exists(int i, const bool (&has_column)[2]) const {
    return RowOf(i) < args_.m && has_column[i % 4 / 2];
  }
  __device__ __forceinline__ float* At(int i, int column) const {
    return args_.y + RowOf(i) * args_.y_stride + column + i % 4 / 2 * 8;
  }

  // Requires n to be a multiple of 16.
  __device__ __forceinline__ void Activate(float (&sum)[kSums]) const {
    const int column = column_tile_ * (Shape::kColumns / 2) + first_ / 2 + lane_column_;
    const bool exists = column < args_.n / 2;
    float gate_bias = 0.0f, up_bias = 0.0f;
    if (args_.bias != nullptr && exists) {
      gate_bias = args_.bias[column];
      up_bias = args_.bias[args_.n / 2 + column];
    }
    // Neighbouring lanes exchange results, so that each has two columns of one row.
    const bool is_odd = lane_column_ % 2 != 0;
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      float results[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float gate = sum[i + j];
        float up = sum[i + 2 + j];
        if (args_.bias != nullptr) {
          gate += gate_bias;
          up += up_bias;
        }
        KeepPair<Shape>(args_, RowOf(i + j), column, gate, up);
        RoundPair<Shape>(args_, RowOf(i + j), column, gate, up);
        results[j] = SiluTimes(gate, up);
      }
      const float mine = is_odd ? results[1] : results[0];
      const float other = __shfl_xor_sync(~0u, is_odd ? results[0] : results[1], 4);
      const int row = RowOf(i) + (is_odd ? 1 : 0);
      if (row >= args_.m || !exists) continue;
      const uint32_t pair =
          is_odd ? NarrowPair<Shape::kType>(other, mine) : NarrowPair<Shape::kType>(mine, other);
      uint16_t* const out = ActivatedAt(args_, row, column - (is_odd ? 1 : 0));
      if (args_.activation.vectors) {
        *reinterpret_cast<uint32_t*>(out) = pair;
      } else {
        out[0] = static_cast<uint16_t>(pair);
        out[1] = static_cast<uint16_t>(pair >> 16);
      }
    }
  }

  const typename Shape::Args& args_;
  const int row_;
  const int first_;
  const int lane_column_;
  const int column_tile_;
};

#endif  // GRAFT_HOPPER

}  // namespace graft
