// What one thread block does of a LoRA launch in bf16. A block works on one segment and slice: it
// multiplies one of kLoraSplits parts of k with all ranks (shrink) and, once the parts are summed,
// a stretch of y's columns (expand). Between the two the sums pass through shared memory of the
// cluster (Part::kBoth) or through args.h (two launches); what is added in which order is the same.
//
// Bytes come in one stream per thread through shared memory, first of A, then of B, kDepth groups
// ahead of the arithmetic: B is on its way while A is multiplied. Each thread copies what it will
// multiply itself, so there is nobody to wait for. The tensor cores take k and the ranks in any
// order as long as both operands agree on it, so that 16 bytes as they lie in memory are two
// operands of a lane, and no element changes its lane.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/lora/lora.h"
#include "kernels/lora/lora_launch.cuh"
#include "kernels/lora/lora_ptx.cuh"

namespace graft::lora {

inline constexpr int kWarps = 8;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kTileRanks = 16;   // of one tensor core operation
inline constexpr int kTileRows = 8;     // of x and y, likewise
inline constexpr int kGroupK = 64;      // k of a group of A: kTileRanks * kGroupK elements
inline constexpr int kGroupN = 64;      // columns of a group of B: kTileRanks * kGroupN elements
inline constexpr int kGroupCopies = 4;  // of 16 bytes per thread
inline constexpr int kGroupBytes = kGroupCopies * 16 * 32;  // per warp
// Floats between two rows of a warp's sums: no two lanes in one bank.
inline constexpr int kPartialStride = kTileRanks + 4;

// Sums of h in a block's shared memory: one of each block of the cluster, or all in one.
constexpr int SharesOf(Part part) { return part == Part::kBoth ? kLoraSplits : 1; }

__host__ __device__ constexpr int RankTiles(int64_t rank) {
  return static_cast<int>((rank + kTileRanks - 1) / kTileRanks);
}

// Where things lie in a block's shared memory, in bytes.
struct SharedLayout {
  int partials = 0;  // [warps * tiles of a warp][rows][kPartialStride] floats
  int exchange = 0;  // [shares][rows][ranks] floats
  int pointers = 0;  // [2][ranks] pointers
  int bytes = 0;
};

__host__ __device__ constexpr SharedLayout LayoutFor(int depth, int row_tiles, int shares,
                                                     int64_t rank_max) {
  const int tiles = RankTiles(rank_max);
  const int rows = row_tiles * kTileRows;
  SharedLayout layout;
  layout.partials = depth * kWarps * kGroupBytes;
  layout.exchange = layout.partials + (tiles > kWarps ? tiles : kWarps) * rows * kPartialStride * 4;
  layout.pointers = layout.exchange + shares * rows * tiles * kTileRanks * 4;
  layout.bytes = layout.pointers + 2 * tiles * kTileRanks * 8;
  return layout;
}

struct KernelArgs {
  LoraArgs lora;
  int32_t row_splits = 1;  // blocks that share the rows of a segment: gridDim.z / num_slices
  bool vectors = false;    // x, y, k and all n allow accesses of 16 bytes
  bool add_in_l2 = false;  // y += there rather than here: nobody waits, but L2 adds slowly
  SharedLayout layout;
};

// Up to 8 elements from p, wherever it lies; zeros after `count`.
__device__ __noinline__ uint4 LoadElements(const void* p, int64_t count) {
  uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = i < count ? static_cast<const uint16_t*>(p)[i] : 0;
    words[i / 2] |= bits << (i % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

__device__ __forceinline__ uint32_t PackBf16(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// v minus what PackBf16 keeps of it.
__device__ __forceinline__ float RestOfBf16(float v) {
  return v - __bfloat162float(__float2bfloat16_rn(v));
}

enum class Found { kNothing, kOffBorders, kWork };

// kVectors: with accesses of 16 bytes; element by element otherwise, with the same arithmetic. The
// code is short rather than general in one place: a block lives for some thousand cycles, and each
// line of instructions it has not yet met costs hundreds.
template <Part kPart, int kDepth, int kRowTiles, bool kVectors>
class LoraBlock {
 public:
  static constexpr int kRows = kRowTiles * kTileRows;  // of a pass
  static constexpr int kShares = SharesOf(kPart);

  __device__ __forceinline__ LoraBlock(const KernelArgs& args, char* shared)
      : args_(args),
        lora_(args.lora),
        partials_(reinterpret_cast<float*>(shared + args.layout.partials)),
        exchange_(reinterpret_cast<float*>(shared + args.layout.exchange)),
        pointers_(reinterpret_cast<const uint16_t**>(shared + args.layout.pointers)),
        warp_(static_cast<int>(threadIdx.x) / 32),
        g_(static_cast<int>(threadIdx.x) % 32 / 4),
        t_(static_cast<int>(threadIdx.x) % 4),
        stage_(SharedAddress(shared) + warp_ * kDepth * kGroupBytes + threadIdx.x % 32 * 16) {}

  // Finds the block's work.
  __device__ __forceinline__ Found Find() {
    const LoraSegment segment = lora_.segments[blockIdx.y];
    const auto slices = static_cast<unsigned>(lora_.num_slices);
    const unsigned row_split = blockIdx.z / slices;
    slice_ = static_cast<int>(blockIdx.z - row_split * slices);
    n_ = static_cast<int>(lora_.slice_n[slice_]);
    k_ = static_cast<int>(lora_.k);
    row_ = segment.row_begin + static_cast<int>(row_split) * kRows;
    row_end_ = segment.row_end;
    if (row_ >= row_end_) return Found::kNothing;
    PrefetchRows();
    const LoraMatrix matrix = lora_.matrices[segment.adapter_slot * lora_.matrices_stride + slice_];
    rank_ = matrix.rank;
    if (rank_ == 0) return Found::kNothing;
    scale_ = matrix.scale;
    tiles_ = RankTiles(rank_);
    PlanShrink();
    PlanExpand();
    return FetchPointers(matrix) || !kVectors ? Found::kWork : Found::kOffBorders;
  }

  __device__ __forceinline__ void Run() {
    Start();
    WaitForPrevious();
    LetNextStart();
    if constexpr (kPart == Part::kShrink) PrefetchB();
    if constexpr (kPart == Part::kBoth) ArriveAtCluster();
    for (;;) {
      if constexpr (kPart != Part::kExpand) Shrink();
      if constexpr (kPart == Part::kBoth) {
        WaitForCluster();
        ShareSums();
        ArriveAtCluster();
        WaitForCluster();
      } else if constexpr (kPart == Part::kShrink) {
        StoreSums();
      } else {
        LoadSums();
      }
      if constexpr (kPart != Part::kShrink) Expand();
      row_ += args_.row_splits * kRows;
      if (row_ >= row_end_) break;
      __syncthreads();
      if constexpr (kPart == Part::kBoth) ArriveAtCluster();
      Start();
    }
  }

 private:
  // ---- The plan: which groups of bytes this warp takes. ----

  // Warps divide the ranks, then this block's part of k.
  __device__ __forceinline__ void PlanShrink() {
    if constexpr (kPart == Part::kExpand) return;
    k_warps_log2_ = tiles_ > 4 ? 0 : tiles_ > 2 ? 1 : tiles_ > 1 ? 2 : 3;
    const int groups = (k_ + kGroupK - 1) / kGroupK;
    const int block = static_cast<int>(blockIdx.x);
    const int begin = groups * block / kLoraSplits;
    const int count = groups * (block + 1) / kLoraSplits - begin;
    const int part = warp_ & ((1 << k_warps_log2_) - 1);
    k_begin_ = begin + (count * part >> k_warps_log2_);
    k_groups_ = begin + (count * (part + 1) >> k_warps_log2_) - k_begin_;
    // More than one tile only where there are more tiles than warps.
    const int tile = warp_ >> k_warps_log2_;
    a_groups_ = tile >= tiles_ ? 0 : tile + kWarps < tiles_ ? 2 * k_groups_ : k_groups_;
  }

  // Blocks divide the columns, then warps.
  __device__ __forceinline__ void PlanExpand() {
    if constexpr (kPart == Part::kShrink) return;
    const int units = (n_ + kGroupN - 1) / kGroupN;
    const int block = static_cast<int>(blockIdx.x);
    int begin = block * kWarps;
    int end = min(units, begin + kWarps);
    if constexpr (kPart == Part::kBoth) {
      begin = units * block / kLoraSplits;
      end = units * (block + 1) / kLoraSplits;
    }
    column_ = (begin + warp_) * kGroupN;
    column_end_ = end * kGroupN;
  }

  // What the block will read of x and y, into the L2 cache, of which every kernel sees the same: so
  // that it may be asked for while an earlier kernel still writes it.
  __device__ __forceinline__ void PrefetchRows() const {
    const int row = row_ + static_cast<int>(threadIdx.x) / 16;
    if (row >= min(row_end_, row_ + kRows)) return;
    const int block = static_cast<int>(blockIdx.x);
    const int line = static_cast<int>(threadIdx.x) % 16;
    if constexpr (kPart != Part::kExpand) {
      constexpr int kLine = 64;  // elements
      const int lines = (k_ + kLine - 1) / kLine;
      const auto* x = static_cast<const uint16_t*>(lora_.x) + row * lora_.x_stride;
#pragma unroll 1
      for (int i = lines * block / kLoraSplits + line; i < lines * (block + 1) / kLoraSplits;
           i += 16) {
        PrefetchToL2(x + i * kLine);
      }
    }
    if constexpr (kPart != Part::kShrink) {
      constexpr int kLine = 32;
      const int lines = (n_ + kLine - 1) / kLine;
      const int begin = kPart == Part::kBoth ? lines * block / kLoraSplits : block * kWarps * 2;
      const int end =
          kPart == Part::kBoth ? lines * (block + 1) / kLoraSplits : min(lines, begin + kWarps * 2);
      const float* y = Y(row, 0);
#pragma unroll 1
      for (int i = begin + line; i < end; i += 16) PrefetchToL2(y + i * kLine);
    }
  }

  // The tables of row pointers, into shared memory. False where something is off 16-byte borders.
  __device__ __forceinline__ bool FetchPointers(const LoraMatrix& matrix) {
    bool on_border = true;
    const int i = static_cast<int>(threadIdx.x);  // kLoraRankMax threads
    if (i < rank_) {
      const void* a = kPart == Part::kExpand ? nullptr : matrix.a_rows[i];
      const void* b = matrix.b_rows[i];
      on_border = (reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) % 16 == 0;
      pointers_[i] = static_cast<const uint16_t*>(a);
      BRows()[i] = static_cast<const uint16_t*>(b);
    }
    return __syncthreads_and(on_border) != 0 && args_.vectors;
  }
  __device__ __forceinline__ const uint16_t** BRows() const {
    return pointers_ + tiles_ * kTileRanks;
  }

  // ---- The stream of bytes. ----

  // 16 bytes of a row, zeros past its end.
  __device__ __forceinline__ void Copy(uint32_t to, const uint16_t* row, int begin, int end,
                                       bool present) {
    if constexpr (kVectors) {
      CopyAsync(to, row + begin, present && begin < end);
    } else {
      StoreShared(to, LoadElements(row + begin, present ? end - begin : 0));
    }
  }

  __device__ __forceinline__ void Start() {
    next_group_ = 0;
    next_tile_ = kPart == Part::kExpand ? 0 : warp_ >> k_warps_log2_;
    next_at_ = kPart == Part::kExpand ? column_ : k_begin_;
    if (kPart == Part::kBoth && a_groups_ == 0) StartB();
#pragma unroll 1
    for (int i = 0; i < kDepth; ++i) Issue();
  }
  __device__ __forceinline__ void StartB() {
    next_tile_ = 0;
    next_at_ = column_;
  }

  __device__ __forceinline__ void Issue() {
    const uint32_t to = stage_ + (next_group_ & (kDepth - 1)) * kGroupBytes;
    if (kPart != Part::kExpand && next_group_ < a_groups_) {
      const int rank = next_tile_ * kTileRanks + g_;
      const int k = next_at_ * kGroupK + t_ * 8;
      const uint16_t* low = pointers_[rank];
      const uint16_t* high = pointers_[rank + 8];
      Copy(to, low, k, k_, rank < rank_);
      Copy(to + 512, high, k, k_, rank + 8 < rank_);
      Copy(to + 1024, low, k + 32, k_, rank < rank_);
      Copy(to + 1536, high, k + 32, k_, rank + 8 < rank_);
      if (++next_at_ == k_begin_ + k_groups_) {
        next_at_ = k_begin_;
        next_tile_ += kWarps;
        if (kPart == Part::kBoth && next_group_ + 1 == a_groups_) StartB();
      }
    } else if (kPart != Part::kShrink && next_at_ < column_end_) {
      const int rank = next_tile_ * kTileRanks + t_ * 4;
      const int column = next_at_ + g_ * 8;
      const uint16_t** rows = BRows() + rank;
#pragma unroll
      for (int i = 0; i < kGroupCopies; ++i) {
        Copy(to + i * 512, rows[i], column, n_, rank + i < rank_);
      }
      if (++next_tile_ == tiles_) {
        next_tile_ = 0;
        next_at_ += kWarps * kGroupN;
      }
    }
    CommitCopies();
    ++next_group_;
  }

  // Takes a group out of the stream and lets the one kDepth further in.
  __device__ __forceinline__ void Take(uint4 (&values)[kGroupCopies]) {
    WaitForCopies<kDepth - 1>();
    const uint32_t from = stage_ + (next_group_ & (kDepth - 1)) * kGroupBytes;
#pragma unroll
    for (int i = 0; i < kGroupCopies; ++i) values[i] = LoadShared(from + i * 512);
    Issue();
  }

  // For the expand that follows in another launch: this block's share of B, into the L2 cache.
  __device__ __forceinline__ void PrefetchB() {
    constexpr int kLine = 64;  // elements
    const int lines = (n_ + kLine - 1) / kLine;
    const int begin = lines * static_cast<int>(blockIdx.x) / kLoraSplits;
    const int end = lines * static_cast<int>(blockIdx.x + 1) / kLoraSplits;
#pragma unroll 1
    for (int rank = static_cast<int>(threadIdx.x) / 8; rank < rank_; rank += kThreads / 8) {
      const uint16_t* row = BRows()[rank];
      for (int line = begin + static_cast<int>(threadIdx.x) % 8; line < end; line += 8) {
        PrefetchToL2(row + line * kLine);
      }
    }
  }

  // ---- Shrink ----

  struct Rows {
    uint4 x[kRowTiles][2];
  };

  __device__ __forceinline__ Rows LoadX(int group) const {
    Rows rows;
    const int k = group * kGroupK + t_ * 8;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      const int row = row_ + tile * kTileRows + g_;
      const auto* x = static_cast<const uint16_t*>(lora_.x) + row * lora_.x_stride + k;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        rows.x[tile][i] = uint4{0, 0, 0, 0};
        if (row >= row_end_ || k + i * 32 >= k_) continue;
        if constexpr (kVectors) {
          rows.x[tile][i] = *reinterpret_cast<const uint4*>(x + i * 32);
        } else {
          rows.x[tile][i] = LoadElements(x + i * 32, k_ - k - i * 32);
        }
      }
    }
    return rows;
  }

  __device__ __forceinline__ void Shrink() {
#pragma unroll 1
    for (int tile = warp_ >> k_warps_log2_; tile < tiles_; tile += kWarps) {
      float sum[kRowTiles][4] = {};
      Rows rows;
      if (k_groups_ > 0) rows = LoadX(k_begin_);
#pragma unroll 1
      for (int group = 1; group <= k_groups_; ++group) {
        Rows next = rows;
        if (group < k_groups_) next = LoadX(k_begin_ + group);
        uint4 a[kGroupCopies];
        Take(a);
#pragma unroll
        for (int row_tile = 0; row_tile < kRowTiles; ++row_tile) {
          if (row_tile > 0 && row_ + row_tile * kTileRows >= row_end_) break;
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const uint4 x = rows.x[row_tile][i];
            const uint4 low = a[2 * i];
            const uint4 high = a[2 * i + 1];
            MultiplyAdd(sum[row_tile], low.x, high.x, low.y, high.y, x.x, x.y);
            MultiplyAdd(sum[row_tile], low.z, high.z, low.w, high.w, x.z, x.w);
          }
        }
        rows = next;
      }
      KeepSums(tile, sum);
    }
    __syncthreads();
  }

  __device__ __forceinline__ float* Partial(int rank_tile, int k_warp, int row) const {
    return partials_ + (((rank_tile << k_warps_log2_) + k_warp) * kRows + row) * kPartialStride;
  }

  __device__ __forceinline__ void KeepSums(int rank_tile, const float (&sum)[kRowTiles][4]) {
    float* to = Partial(rank_tile, warp_ & ((1 << k_warps_log2_) - 1), 2 * t_) + g_;
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile, to += kTileRows * kPartialStride) {
      to[0] = sum[tile][0];
      to[kPartialStride] = sum[tile][1];
      to[8] = sum[tile][2];
      to[kPartialStride + 8] = sum[tile][3];
    }
  }

  // ---- Between shrink and expand: exchange_ becomes [kShares][kRows][ranks of whole tiles]. A
  // warp takes a row at a time. ----

  __device__ __forceinline__ int RowsOfPass() const { return min(row_end_ - row_, kRows); }

  // Sums of four ranks over the block's warps, in their order, to every block of the cluster.
  __device__ __forceinline__ void ShareSums() {
    const int quad = static_cast<int>(threadIdx.x) % 32 / kLoraSplits;
    const int ranks = tiles_ * kTileRanks;
#pragma unroll 1
    for (int row = warp_; row < RowsOfPass(); row += kWarps) {
      float* to = exchange_ + (static_cast<int>(blockIdx.x) * kRows + row) * ranks + quad * 4;
#pragma unroll 1
      for (int tile = 0; tile < tiles_; ++tile, to += kTileRanks) {
        const float* from = Partial(tile, 0, row) + quad * 4;
        float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 4
        for (int i = 0; i < 1 << k_warps_log2_; ++i, from += kRows * kPartialStride) {
          const float4 v = *reinterpret_cast<const float4*>(from);
          sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        StoreToCluster(SharedAddress(to), static_cast<int>(threadIdx.x) % kLoraSplits, sum);
      }
    }
  }

  __device__ __forceinline__ float* H(int split, int row) const {
    return lora_.h + ((int64_t{split} * lora_.num_slices + slice_) * lora_.num_rows + row_ + row) *
                         lora_.h_stride;
  }

  __device__ __forceinline__ void StoreSums() {
#pragma unroll 1
    for (int row = warp_; row < RowsOfPass(); row += kWarps) {
      float* to = H(static_cast<int>(blockIdx.x), row);
#pragma unroll 1
      for (int rank = static_cast<int>(threadIdx.x) % 32; rank < rank_; rank += 32) {
        const float* from = Partial(rank / kTileRanks, 0, row) + rank % kTileRanks;
        float sum = 0.0f;
#pragma unroll 4
        for (int i = 0; i < 1 << k_warps_log2_; ++i) sum += from[i * kRows * kPartialStride];
        to[rank] = sum;
      }
    }
  }

  __device__ __forceinline__ void LoadSums() {
    const int ranks = tiles_ * kTileRanks;
#pragma unroll 1
    for (int row = warp_; row < RowsOfPass(); row += kWarps) {
#pragma unroll 1
      for (int rank = static_cast<int>(threadIdx.x) % 32; rank < ranks; rank += 32) {
        float parts[kLoraSplits];
#pragma unroll
        for (int split = 0; split < kLoraSplits; ++split) {
          parts[split] = rank < rank_ ? __ldcg(H(split, row) + rank) : 0.0f;
        }
        float sum = 0.0f;
#pragma unroll
        for (const float part : parts) sum += part;
        exchange_[row * ranks + rank] = sum;
      }
    }
    __syncthreads();
  }

  // ---- Expand ----

  // Ranks 4t to 4t+3 of the tile for row g, as the tensor cores take them: three bf16 numbers of
  // falling size each, which together are h to the last bit or nearly.
  __device__ __forceinline__ void LoadH(int row_tile, int rank_tile, uint32_t (&h)[3][2]) const {
    const int ranks = tiles_ * kTileRanks;
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    if (row_ + row_tile * kTileRows + g_ < row_end_) {
      const float* from =
          exchange_ + (row_tile * kTileRows + g_) * ranks + rank_tile * kTileRanks + t_ * 4;
#pragma unroll
      for (int share = 0; share < kShares; ++share) {
        const float4 v = *reinterpret_cast<const float4*>(from + share * kRows * ranks);
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
      }
    }
#pragma unroll
    for (auto& pair : h) {
      pair[0] = PackBf16(sum.x, sum.y);
      pair[1] = PackBf16(sum.z, sum.w);
      sum = {RestOfBf16(sum.x), RestOfBf16(sum.y), RestOfBf16(sum.z), RestOfBf16(sum.w)};
    }
  }

  __device__ __forceinline__ void Expand() {
#pragma unroll 1
    for (int column = column_; column < column_end_; column += kWarps * kGroupN) {
      float sum[kRowTiles][4][4] = {};
#pragma unroll 1
      for (int rank_tile = 0; rank_tile < tiles_; ++rank_tile) {
        uint32_t h[kRowTiles][3][2];
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile) LoadH(tile, rank_tile, h[tile]);
        uint4 b[kGroupCopies];
        Take(b);
        const uint32_t first[4] = {b[0].x, b[0].y, b[0].z, b[0].w};
        const uint32_t second[4] = {b[1].x, b[1].y, b[1].z, b[1].w};
        const uint32_t third[4] = {b[2].x, b[2].y, b[2].z, b[2].w};
        const uint32_t fourth[4] = {b[3].x, b[3].y, b[3].z, b[3].w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // columns 2i and 2i + 1 of the lane's eight
          const uint32_t a0 = __byte_perm(first[i], second[i], 0x5410);
          const uint32_t a1 = __byte_perm(first[i], second[i], 0x7632);
          const uint32_t a2 = __byte_perm(third[i], fourth[i], 0x5410);
          const uint32_t a3 = __byte_perm(third[i], fourth[i], 0x7632);
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile) {
            if (tile > 0 && row_ + tile * kTileRows >= row_end_) break;
#pragma unroll
            for (const auto& pair : h[tile]) {
              MultiplyAdd(sum[tile][i], a0, a1, a2, a3, pair[0], pair[1]);
            }
          }
        }
      }
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        AddToY(row_ + tile * kTileRows + 2 * t_, column + g_ * 8, sum[tile]);
      }
    }
  }

  // ---- y: a lane's share of a tile is eight columns of two rows. ----

  __device__ __forceinline__ float* Y(int row, int column) const {
    return lora_.y + row * lora_.y_stride + lora_.slice_begin[slice_] + column;
  }

  __device__ __forceinline__ void AddToY(int row, int column, const float (&sum)[4][4]) const {
    float* y = Y(row, column);
#pragma unroll
    for (int i = 0; i < 2; ++i, y += lora_.y_stride) {
      if (row + i >= row_end_ || column >= n_) return;
      float delta[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) delta[j] = __fmul_rn(scale_, sum[j / 2][j % 2 * 2 + i]);
      if (kVectors && args_.add_in_l2) {
        AddInL2(y, {delta[0], delta[1], delta[2], delta[3]});
        AddInL2(y + 4, {delta[4], delta[5], delta[6], delta[7]});
      } else if (kVectors) {
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
          if (column + j < n_) y[j] += delta[j];
        }
      }
    }
  }

  const KernelArgs& args_;
  const LoraArgs& lora_;
  float* const partials_;
  float* const exchange_;
  const uint16_t** const pointers_;  // rows of A, then of B
  const int warp_, g_, t_;           // the lane is 4g + t
  const uint32_t stage_;             // this thread's part of the stream's stages
  int slice_ = 0;
  int n_ = 0;
  int k_ = 0;
  int row_ = 0;  // first of the pass
  int row_end_ = 0;
  int rank_ = 0;
  int tiles_ = 0;  // of ranks
  float scale_ = 0.0f;
  int k_warps_log2_ = 0;  // warps that share a tile of ranks
  int k_begin_ = 0;       // in groups
  int k_groups_ = 0;
  int a_groups_ = 0;  // over all of the warp's tiles
  int column_ = 0;    // the warp's first; the next are kWarps * kGroupN further
  int column_end_ = 0;
  int next_group_ = 0;  // of the stream, to be let in
  int next_tile_ = 0;   // of ranks
  int next_at_ = 0;     // A: group of k; B: column
};

}  // namespace graft::lora
