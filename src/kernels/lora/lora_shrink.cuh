// How a block forms h = x A^T in bf16 and fp16, for up to kTileRows rows at a time and one of the
// kLoraSplits parts of k. An element of a part of h is the sum, in order, over groups of k. Each
// group is multiplied by one chain of tensor core operations that begins at zero. So the bits of a
// row depend neither on its batch nor on the kernel.
#pragma once

#include "kernels/lora/lora_block.cuh"

namespace graft::lora {

constexpr int kGroupsOfWarp = kChunkGroups / kWarps;
// Floats between two rows of a group's sums, such that no two lanes hit the same bank.
constexpr int kPartialStride = kTileRanks + 4;
constexpr int kPartialFloats = kChunkGroups * kTileRows * kPartialStride;

// What a lane has of a row of x for one group: 16 + 16 bytes.
struct XGroup {
  uint4 v[2];
};

__device__ __forceinline__ XGroup LoadX(const KernelArgs& args, int row, int row_end, int k) {
  XGroup x = {};
  const LoraArgs& lora = args.lora;
  const auto* p = static_cast<const uint16_t*>(lora.x) + row * lora.x_stride + k;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int left = static_cast<int>(lora.k) - k - i * 32;
    if (row >= row_end || left <= 0) continue;
    x.v[i] =
        args.vectors ? *reinterpret_cast<const uint4*>(p + i * 32) : LoadElements(p + i * 32, left);
  }
  return x;
}

// What a lane has of a group of A: ranks g and g + 8 of the tile, for the same k as XGroup; zeros
// past k.
struct AGroup {
  uint4 low[2], high[2];
};

__device__ __forceinline__ AGroup LoadA(uint32_t stage, int group, int elements) {
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int k = group * kGroup + static_cast<int>(threadIdx.x) % 4 * 8;
  const uint32_t from = stage + g * kRowBytesOfA + k * 2;
  AGroup a;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    a.low[i] = LoadStage(from + i * 64, k + i * 32 < elements);
    a.high[i] = LoadStage(from + 8 * kRowBytesOfA + i * 64, k + i * 32 < elements);
  }
  return a;
}

template <bool kIsBf16>
__device__ __forceinline__ void MultiplyGroup(float (&sum)[4], const AGroup& a, const XGroup& x) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = 0.0f;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4& low = a.low[i];
    const uint4& high = a.high[i];
    MultiplyAdd<Half<kIsBf16>>(sum, {low.x, high.x, low.y, high.y}, x.v[i].x, x.v[i].y);
    MultiplyAdd<Half<kIsBf16>>(sum, {low.z, high.z, low.w, high.w}, x.v[i].z, x.v[i].w);
  }
}

// ---- Few rows: the warps divide k. ----

// Feeds the ring with what one Pass multiplies.
__device__ __forceinline__ void FeedShrink(const KernelArgs& args, const RowTable& table, int rank,
                                           const KPart& part, Ring& ring) {
  const int tiles = RankTiles(rank);
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    const uint16_t* from = table.Row(tile);
#pragma unroll 1
    for (int chunk = 0; chunk < part.chunks(); ++chunk) {
      ring.Feed(from + part.BeginOf(chunk), rank - tile * kTileRanks, part.ElementsOf(chunk),
                args.vectors);
    }
  }
}

// kIsTeam: these threads are one of several teams of the block.
template <bool kIsBf16, bool kIsTeam = false>
class Shrinker {
 public:
  __device__ __forceinline__ Shrinker(const KernelArgs& args, Ring& ring, float* partials)
      : args_(args),
        ring_(ring),
        partials_(partials),
        warp_(static_cast<int>(threadIdx.x) / 32),
        g_(static_cast<int>(threadIdx.x) % 32 / 4),
        t_(static_cast<int>(threadIdx.x) % 4) {}

  using X = XGroup[kGroupsOfWarp];

  // Loads this thread's share of x, for the first kTileRows of rows [row, row_end).
  __device__ __forceinline__ void LoadChunkOfX(int row, int row_end, const KPart& part, int chunk,
                                               X& x) const {
#pragma unroll
    for (int i = 0; i < kGroupsOfWarp; ++i) {
      const int group = warp_ + i * kWarps;
      const int end = group < part.GroupsOf(chunk) ? row_end : row;
      x[i] = LoadX(args_, row + g_, end, part.BeginOf(chunk) + group * kGroup + t_ * 8);
    }
  }

  // Adds a chunk's groups to `total`: thread i sums rank i % 16 of row i / 16.
  __device__ __forceinline__ void AddChunk(const KPart& part, int chunk, int rows, const X& x,
                                           float& total) {
    float* const partials = partials_ + (stage_idx_++ & 1) * kPartialFloats;
    MultiplyStage(part.ElementsOf(chunk), rows, x, partials);
    if constexpr (kIsTeam) {
      SyncThreads<kMultiplyThreads>(TeamBarrier());
    } else {
      SyncThreads<kMultiplyThreads, 1>();
    }
    const float* from = partials + MyRow() * kPartialStride + MyRank();
    const int groups = part.GroupsOf(chunk);
    float sums[kChunkGroups];
#pragma unroll
    for (int i = 0; i < kChunkGroups; ++i) sums[i] = from[i * kTileRows * kPartialStride];
#pragma unroll
    for (int i = 0; i < kChunkGroups; ++i) total = i < groups ? total + sums[i] : total;
  }

  __device__ __forceinline__ void PutH(int row, int row_end, int part_idx, int slice,
                                       int tile_begin, int rank, float total) const {
    if (row + MyRow() >= row_end || tile_begin + MyRank() >= rank) return;
    HOf(args_.lora, part_idx, slice, row + MyRow())[tile_begin + MyRank()] = total;
  }

  // Does all of the above for all ranks.
  __device__ __forceinline__ void Pass(int row, int row_end, int part_idx, int slice, int rank) {
    const KPart part(args_.lora.k, part_idx);
    const int chunks = part.chunks();
    X x;
    LoadChunkOfX(row, row_end, part, 0, x);
#pragma unroll 1
    for (int tile_begin = 0; tile_begin < rank; tile_begin += kTileRanks) {
      float total = 0.0f;
#pragma unroll 1
      for (int chunk = 0; chunk < chunks; ++chunk) {
        if (chunks > 1 && (tile_begin > 0 || chunk > 0)) {
          LoadChunkOfX(row, row_end, part, chunk, x);
        }
        AddChunk(part, chunk, row_end - row, x, total);
      }
      PutH(row, row_end, part_idx, slice, tile_begin, rank, total);
    }
  }

 private:
  static __device__ int MyRow() { return static_cast<int>(threadIdx.x) / kTileRanks; }
  static __device__ int MyRank() { return static_cast<int>(threadIdx.x) % kTileRanks; }

  __device__ __forceinline__ void MultiplyStage(int elements, int rows,
                                                const XGroup (&x)[kGroupsOfWarp], float* partials) {
    const uint32_t stage = ring_.Wait();
    float sum[kGroupsOfWarp][4];
#pragma unroll
    for (int i = 0; i < kGroupsOfWarp; ++i) {
      MultiplyGroup<kIsBf16>(sum[i], LoadA(stage, warp_ + i * kWarps, elements), x[i]);
    }
    ring_.Release();
    if (2 * t_ >= rows) return;
    float* to = partials + (warp_ * kTileRows + 2 * t_) * kPartialStride + g_;
#pragma unroll
    for (int i = 0; i < kGroupsOfWarp; ++i) {
      to[0] = sum[i][0];
      to[kPartialStride] = sum[i][1];
      to[8] = sum[i][2];
      to[kPartialStride + 8] = sum[i][3];
      to += kWarps * kTileRows * kPartialStride;
    }
  }

  const KernelArgs& args_;
  Ring& ring_;
  float* const partials_;
  const int warp_, g_, t_;  // the lane is 4g + t
  int stage_idx_ = 0;
};

}  // namespace graft::lora
