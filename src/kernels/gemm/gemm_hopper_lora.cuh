// LoRA's expand inside Hopper's GEMM: y's sums begin with scale * h B^T instead of zero, so that an
// adapter costs its bytes and y is written once. A few warps beside the producer list the segments
// of a tile's rows and stream B, 16 ranks of one segment at a time ("an item"), through a ring of
// its own; they touch constants alone and begin before earlier kernels have ended. Each of the
// multiplying warps takes the items of its 16 rows with the tensor cores' instruction of one warp,
// whose sums lie where wgmma's do: 32 rows of 32 adapters cost two warps 16 small products each,
// not a whole warpgroup 32 large ones.
//
// What is added to an element, and in which order, depends on its own row's adapter alone: slices,
// then tiles of 16 ranks, ascending. A row outside a segment takes nothing of that segment's
// products, not even zeros: another tenant's NaN stays with him.
#pragma once

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/lora/lora.h"

#if defined(GRAFT_HOPPER)
#include "kernels/gemm/gemm_lora_ptx.cuh"
#endif

namespace graft {

inline constexpr int kLoraItemRanks = 16;
inline constexpr int kLoraStagesMaxLog2 = 5;
// Full and empty of each stage, and of the table.
inline constexpr int kLoraBarrierBytes = (2 << kLoraStagesMaxLog2) * 8 + 16;

struct GemmLoraArgs {
  LoraArgs lora;
  int num_stages_log2 = 0;
  bool vectors = false;    // slices begin and end on 16 bytes of B's rows
  bool h_vectors = false;  // so do rows of h
};

// The segments with work in a tile of kRows rows, in shared memory.
template <int kRows>
struct GemmLoraTable {
  static constexpr int kNone = 0xff;
  int32_t num_segments;
  int32_t slot[kRows];
  uint8_t first[kRows];  // rows, counted from the tile's first
  uint8_t last[kRows];
  uint8_t num_items[kLoraSlicesMax][kRows];  // tiles of ranks; 0 where the slice is elsewhere
  uint8_t segment_of_row[kRows];             // or kNone
};

// Which columns of y a tile holds: from `first` on; from the middle of its pieces on they lie `gap`
// further. Up's columns beside the gate's, or, with gap 0, plain neighbours.
struct GemmTileColumns {
  int first;
  int gap;
};
// Which halves of a tile's pieces hold columns of a slice.
struct GemmTileHalves {
  bool left;
  bool right;
};

// kRowsOf x kColumnsOf: the GEMM's tile.
template <int kRowsOf, int kColumnsOf>
struct GemmLoraShape {
  static constexpr int kRows = kRowsOf;
  static constexpr int kColumns = kColumnsOf;
  static constexpr int kWarps = kRows / 16;  // that multiply
  // Warps that load; their number divides that of stages. Beside one multiplying warpgroup and the
  // producer more than three would take registers from all.
  static constexpr int kLoadersLog2 = 1;
  static constexpr int kLoaders = 1 << kLoadersLog2;
  static constexpr int kPieces = kColumns / 8;
  // Between two ranks: odd numbers of 16 bytes keep the ranks on different banks.
  static constexpr int kRankBytes = (kPieces | 1) * 16;
  static constexpr int kStageBytes = kLoraItemRanks * kRankBytes;
  static constexpr int kTableBytes = (sizeof(GemmLoraTable<kRows>) + 15) / 16 * 16;
  static_assert(kColumns % 8 == 0 && kRows <= GemmLoraTable<kRows>::kNone);

  static __device__ GemmTileHalves HalvesOf(const LoraArgs& lora, int slice,
                                            GemmTileColumns columns) {
    constexpr int kMiddle = kPieces / 2 * 8;
    const int first = columns.first - static_cast<int>(lora.slice_begin[slice]);
    const int middle = first + kMiddle + columns.gap;
    const int n = static_cast<int>(lora.slice_n[slice]);
    return {.left = first + kMiddle > 0 && first<n, .right = middle + kColumns - kMiddle> 0 &&
                    middle < n};
  }
};

#if defined(GRAFT_HOPPER)

template <typename Shape>
struct GemmLoraRing {
  uint32_t barriers;
  uint32_t stages;
  GemmLoraTable<Shape::kRows>* table;
  int num_stages_log2;

  __device__ uint32_t Full(int stage) const { return barriers + stage * 8; }
  __device__ uint32_t Empty(int stage) const {
    return barriers + (stage << 3) + (8 << kLoraStagesMaxLog2);
  }
  __device__ uint32_t TableFull() const { return barriers + (16 << kLoraStagesMaxLog2); }
  __device__ uint32_t TableEmpty() const { return TableFull() + 8; }
  __device__ int StageOf(int item) const { return item & ((1 << num_stages_log2) - 1); }
  __device__ int LapOf(int item) const { return item >> num_stages_log2; }
  __device__ uint32_t Stage(int stage) const { return stages + stage * Shape::kStageBytes; }

  // By all threads, before they meet.
  __device__ void Init() const {
    const int i = static_cast<int>(threadIdx.x);
    if (i < 1 << num_stages_log2) {
      BarrierInit(Full(i), 32);
      BarrierInit(Empty(i), Shape::kWarps * 32);
      BarrierInitDone();
    } else if (i == 32) {
      BarrierInit(TableFull(), 32);
      BarrierInit(TableEmpty(), (Shape::kWarps + Shape::kLoaders - 1) * 32);
      BarrierInitDone();
    }
  }

  // Of 32 segments: neighbours belong to different warps that multiply.
  static __device__ int Order(int i) { return i % 2 * 16 + i / 2; }

  // Calls function(slice, tile of ranks, first, items) for all items
  // of the tile, in the order in which they go through the ring. By a whole warp.
  template <typename Function>
  __device__ void ForEachItems(int num_slices, const Function& function) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int slice = 0; slice < num_slices; ++slice) {
      bool any = true;
      for (int rank_tile = 0; any; ++rank_tile) {
        any = false;
        for (int first = 0; first < table->num_segments; first += 32) {
          const int i = first + Order(lane);
          const bool has_item = i < table->num_segments && table->num_items[slice][i] > rank_tile;
          const uint32_t items = __ballot_sync(~0u, has_item);
          if (items == 0) continue;
          any = true;
          function(slice, rank_tile, first, items);
        }
      }
    }
  }
};

__device__ __forceinline__ uint32_t BitsBelow(uint32_t bits, int i) {
  return bits & ((1u << i) - 1);
}

// Elements [begin, begin + 8) of a row of n, zeros outside it.
__device__ __noinline__ uint4 LoadElements(const uint16_t* row, int begin, int n) {
  uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int at = begin + i;
    const uint32_t bits = row != nullptr && at >= 0 && at < n ? row[at] : 0;
    words[i / 2] |= bits << (i % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

// One of the loading warps.
template <typename Shape>
class GemmLoraLoader {
 public:
  __device__ GemmLoraLoader(const GemmLoraArgs& args, const GemmLoraRing<Shape>& ring, int warp)
      : args_(args),
        lora_(args.lora),
        ring_(ring),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // All items of the tile from row `row` on.
  __device__ void LoadTile(int row, GemmTileColumns columns) {
    if (warp_ == 0) {
      if (tile_ > 0) BarrierWait(ring_.TableEmpty(), (tile_ - 1) & 1);
      ListSegments(row, columns);
      BarrierArrive(ring_.TableFull());
    } else {
      BarrierWait(ring_.TableFull(), tile_ & 1);
    }
    ring_.ForEachItems(lora_.num_slices, [&](int slice, int rank_tile, int first, uint32_t items) {
      LoadItems(columns, slice, rank_tile, first, items);
    });
    __syncwarp();
    if (warp_ != 0) BarrierArrive(ring_.TableEmpty());
    ++tile_;
  }

 private:
  static constexpr int kAhead = 8;  // items whose rows are looked up at a time

  __device__ LoraSegment SegmentAt(int i) const {
    return i < lora_.num_segments ? lora_.segments[i] : LoraSegment{};
  }

  __device__ void ListSegments(int row, GemmTileColumns columns) const {
    GemmLoraTable<Shape::kRows>& table = *ring_.table;
    for (int i = lane_; i < Shape::kRows; i += 32) {
      table.segment_of_row[i] = GemmLoraTable<Shape::kRows>::kNone;
    }
    __syncwarp();
    int count = 0;
    LoraSegment next = SegmentAt(lane_);
    for (int i = lane_; i - lane_ < lora_.num_segments; i += 32) {
      const LoraSegment segment = next;
      next = SegmentAt(i + 32);
      const int first = max(segment.row_begin - row, 0);
      const int end = min(segment.row_end - row, Shape::kRows);
      const uint32_t here = __ballot_sync(~0u, first < end);
      if (first < end) {
        const int at = count + __popc(BitsBelow(here, lane_));
        table.slot[at] = segment.adapter_slot;
        table.first[at] = static_cast<uint8_t>(first);
        table.last[at] = static_cast<uint8_t>(end - 1);
        for (int slice = 0; slice < lora_.num_slices; ++slice) {
          table.num_items[slice][at] = NumItems(segment.adapter_slot, slice, columns);
        }
        for (int j = first; j < end; ++j) table.segment_of_row[j] = static_cast<uint8_t>(at);
      }
      count += __popc(here);
    }
    if (lane_ == 0) table.num_segments = count;
    __syncwarp();
  }

  __device__ const LoraMatrix& MatrixOf(int slot, int slice) const {
    return lora_.matrices[slot * lora_.matrices_stride + slice];
  }

  __device__ uint8_t NumItems(int slot, int slice, GemmTileColumns columns) const {
    const GemmTileHalves halves = Shape::HalvesOf(lora_, slice, columns);
    if (!halves.left && !halves.right) return 0;
    const int rank = MatrixOf(slot, slice).rank;
    return static_cast<uint8_t>((rank + kLoraItemRanks - 1) / kLoraItemRanks);
  }

  // This warp's share of `items`. Four lanes copy two of an item's ranks. The code is short rather
  // than unrolled: a block meets most of it for the first time, and fetching it costs more.
  __device__ void LoadItems(GemmTileColumns columns, int slice, int rank_tile, int first,
                            uint32_t items) {
    const bool is_mine = (items >> lane_ & 1) != 0 &&
                         (item_ + __popc(BitsBelow(items, lane_))) % Shape::kLoaders == warp_;
    const void* const* b_rows = nullptr;
    int rank = 0;
    if (is_mine) {
      const LoraMatrix& matrix = MatrixOf(ring_.table->slot[first + ring_.Order(lane_)], slice);
      b_rows = matrix.b_rows;
      rank = matrix.rank;
    }
    uint32_t mine = __ballot_sync(~0u, is_mine);
    while (mine != 0) {
      // Lanes hold a rank's row each of two items at a time.
      const uint16_t* rows[kAhead / 2];
      uint32_t rest = mine;
#pragma unroll
      for (auto& row : rows) {
        const uint32_t second = rest & (rest - 1);
        const uint32_t of = lane_ < kLoraItemRanks ? rest : second;
        const int from = max(__ffs(static_cast<int>(of)) - 1, 0);
        const auto* const table = reinterpret_cast<const void* const*>(
            __shfl_sync(~0u, reinterpret_cast<unsigned long long>(b_rows), from));
        const int ranks = __shfl_sync(~0u, rank, from);
        const int at = rank_tile * kLoraItemRanks + lane_ % kLoraItemRanks;
        row = of != 0 && at < ranks ? static_cast<const uint16_t*>(table[at]) : nullptr;
        rest = second & (second - 1);
      }
#pragma unroll 1
      for (int i = 0; i < kAhead && mine != 0; ++i, mine &= mine - 1) {
        const int bit = __ffs(static_cast<int>(mine)) - 1;
        const uint16_t* row = rows[0];
#pragma unroll
        for (int j = 1; j < kAhead / 2; ++j) row = i / 2 == j ? rows[j] : row;
        LoadItem(item_ + __popc(BitsBelow(items, bit)), row, i % 2 * kLoraItemRanks, slice,
                 columns);
      }
    }
    item_ += __popc(items);
  }

  // The tile's columns of a slice's rows, which lanes from `first_lane` on hold.
  __device__ __forceinline__ void LoadItem(int item, const uint16_t* held, int first_lane,
                                           int slice, GemmTileColumns columns) const {
    const int stage = ring_.StageOf(item);
    const int lap = ring_.LapOf(item);
    if (lap > 0) BarrierWait(ring_.Empty(stage), (lap - 1) & 1);
    const bool on_border = (reinterpret_cast<uintptr_t>(held) & 15) == 0;
    const bool vectors = __all_sync(~0u, on_border) != 0 && args_.vectors;
    const uint16_t* rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows[half] = reinterpret_cast<const uint16_t*>(__shfl_sync(
          ~0u, reinterpret_cast<unsigned long long>(held), first_lane + half * 8 + lane_ / 4));
    }
    // Ranks 4t to 4t+3 are those that lane t of four multiplies: k 2t, 2t+1, 2t+8 and 2t+9. The
    // second half begins 4 further.
    const int rank = lane_ / 4;
    const int k = rank / 4 * 2 + rank % 2 + rank % 4 / 2 * 8;
    const uint32_t target = ring_.Stage(stage) + k * Shape::kRankBytes;
    const GemmTileHalves halves = Shape::HalvesOf(lora_, slice, columns);
    const int end = halves.right ? Shape::kPieces : Shape::kPieces / 2;
    const int begin = columns.first - static_cast<int>(lora_.slice_begin[slice]);
    const int n = static_cast<int>(lora_.slice_n[slice]);
#pragma unroll 1
    for (int piece = (halves.left ? 0 : Shape::kPieces / 2) + lane_ % 4; piece < end; piece += 4) {
      const int at = begin + piece * 8 + (piece < Shape::kPieces / 2 ? 0 : columns.gap);
      if (vectors) {
        const bool inside = at >= 0 && at < n;
        CopyPiece(target + piece * 16, rows[0] + at, inside && rows[0] != nullptr);
        CopyPiece(target + piece * 16 + 4 * Shape::kRankBytes, rows[1] + at,
                  inside && rows[1] != nullptr);
      } else {
        StorePiece(target + piece * 16, LoadElements(rows[0], at, n));
        StorePiece(target + piece * 16 + 4 * Shape::kRankBytes, LoadElements(rows[1], at, n));
      }
    }
    if (vectors) {
      BarrierArriveAfterCopies(ring_.Full(stage));
    } else {
      BarrierArrive(ring_.Full(stage));
    }
  }

  const GemmLoraArgs& args_;
  const LoraArgs& lora_;
  const GemmLoraRing<Shape>& ring_;
  const int warp_;
  const int lane_;
  uint32_t tile_ = 0;
  int item_ = 0;  // the next one's number
};

// One of the multiplying warps: what of a tile's sums LoRA brings.
template <typename Shape>
class GemmLoraAdder {
 public:
  static constexpr int kSums = Shape::kColumns / 2;

  // Of what the GEMM's kernel holds.
  __device__ GemmLoraAdder(const auto& args, const auto& ring)
      : args_(args.lora),
        lora_(args.lora.lora),
        ring_(ring.lora),
        first_(static_cast<int>(threadIdx.x) / 32 * 16),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // The tile from row `row` on; `sum` as in cuda_wgmma.cuh.
  __device__ __forceinline__ void Add(int row, GemmTileColumns columns, float (&sum)[kSums]) {
    BarrierWait(ring_.TableFull(), tile_ & 1);
    const GemmLoraTable<Shape::kRows>& table = *ring_.table;
    int loaded = LoadFirstH(row);
#pragma unroll
    for (float& v : sum) asm volatile("mov.f32 %0, 0f00000000;" : "=f"(v));
    ring_.ForEachItems(lora_.num_slices, [&](int slice, int rank_tile, int first, uint32_t items) {
      const int segment = min(first + ring_.Order(lane_), Shape::kRows - 1);
      const int begin = table.first[segment];
      const int last = table.last[segment];
      const uint32_t mine = items & __ballot_sync(~0u, begin < first_ + 16 && last >= first_);
      const GemmTileHalves halves = Shape::HalvesOf(lora_, slice, columns);
      if (mine != 0 && loaded != slice * 256 + rank_tile) {
        loaded = slice * 256 + rank_tile;
        LoadH<1>(row, slice, rank_tile);
      }
      for (; items != 0; items &= items - 1, ++item_) {
        const int bit = __ffs(static_cast<int>(items)) - 1;
        const int stage = ring_.StageOf(item_);
        BarrierWait(ring_.Full(stage), ring_.LapOf(item_) & 1);
        if ((mine >> bit & 1) != 0) {
          __syncwarp();
          Multiply(stage, __shfl_sync(~0u, begin, bit), __shfl_sync(~0u, last, bit), halves, sum);
        }
        BarrierArrive(ring_.Empty(stage));
      }
    });
    FenceForAsync();  // boxes of W may follow where the ring was
    BarrierArrive(ring_.TableEmpty());
    ++tile_;
  }

 private:
  __device__ int RowOf(int half) const { return first_ + lane_ / 4 + half * 8; }

  __device__ int SegmentOf(int half) const { return ring_.table->segment_of_row[RowOf(half)]; }

  __device__ bool HasItem(int half, int slice, int rank_tile) const {
    const int segment = SegmentOf(half);
    return segment != GemmLoraTable<Shape::kRows>::kNone &&
           ring_.table->num_items[slice][segment] > rank_tile;
  }

  // While the sums need no registers: h of the first items. Which ones, as in Add.
  __device__ __forceinline__ int LoadFirstH(int row) {
    for (int slice = 0; slice < lora_.num_slices; ++slice) {
      if (__any_sync(~0u, HasItem(0, slice, 0) || HasItem(1, slice, 0)) == 0) continue;
      LoadH<2>(row, slice, 0);
      return slice * 256;
    }
    return -1;
  }

  // h of the lane's two rows, four ranks each, as two bf16 numbers each of which the second is
  // what the first left: 16 bits of h. kAtOnce rows are under way together.
  template <int kAtOnce>
  __device__ __forceinline__ void LoadH(int row, int slice, int rank_tile) {
    const int first_rank = rank_tile * kLoraItemRanks + lane_ % 4 * 4;
#pragma unroll
    for (int begin = 0; begin < 2; begin += kAtOnce) {
      float4 parts[kAtOnce][kLoraSplits];
      int counts[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int half = begin + i;
        counts[i] = 0;
        if (HasItem(half, slice, rank_tile)) {
          const int slot = ring_.table->slot[SegmentOf(half)];
          const LoraMatrix& matrix = lora_.matrices[slot * lora_.matrices_stride + slice];
          scale_[half] = matrix.scale;
          counts[i] = matrix.rank - first_rank;
        }
        const int64_t h_row = int64_t{slice} * lora_.num_rows + row + RowOf(half);
        const bool may_read = HasItem(half, slice, rank_tile) && first_rank < lora_.h_stride;
        LoadParts(lora_.h + h_row * lora_.h_stride + first_rank, counts[i], may_read, parts[i]);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (const float4& v : parts[i]) {
          sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        // The rest of the four is anything.
        const float values[4] = {counts[i] > 0 ? sum.x : 0.0f, counts[i] > 1 ? sum.y : 0.0f,
                                 counts[i] > 2 ? sum.z : 0.0f, counts[i] > 3 ? sum.w : 0.0f};
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          const float first = values[2 * pair];
          const float second = values[2 * pair + 1];
          high_[2 * pair + begin + i] = PackBf16(first, second);
          low_[2 * pair + begin + i] = PackBf16(RestOfBf16(first), RestOfBf16(second));
        }
      }
    }
  }

  // All parts of four elements of h, of which `count` exist.
  __device__ __forceinline__ void LoadParts(const float* h, int count, bool may_read,
                                            float4 (&parts)[kLoraSplits]) const {
    const int64_t part = int64_t{lora_.num_slices} * lora_.num_rows * lora_.h_stride;
    if (!args_.h_vectors) {
      parts[0] = SumElements(h, part, count);
      may_read = false;
    }
#pragma unroll
    for (int i = 0; i < kLoraSplits; ++i, h += part) {
      // Without waiting for the rank.
      if (may_read) {
        parts[i] = __ldcg(reinterpret_cast<const float4*>(h));
      } else if (i > 0 || args_.h_vectors) {
        parts[i] = {0.0f, 0.0f, 0.0f, 0.0f};
      }
    }
  }

  static __device__ __noinline__ float4 SumElements(const float* h, int64_t part, int count) {
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
    for (int i = 0; i < kLoraSplits; ++i, h += part) {
      sum.x += count > 0 ? __ldcg(h) : 0.0f;
      sum.y += count > 1 ? __ldcg(h + 1) : 0.0f;
      sum.z += count > 2 ? __ldcg(h + 2) : 0.0f;
      sum.w += count > 3 ? __ldcg(h + 3) : 0.0f;
    }
    return sum;
  }

  // An item whose rows are [first, last].
  __device__ __forceinline__ void Multiply(int stage, int first, int last, GemmTileHalves halves,
                                           float (&sum)[kSums]) {
    const bool in[2] = {first <= RowOf(0) && RowOf(0) <= last,
                        first <= RowOf(1) && RowOf(1) <= last};
    const uint32_t b = ring_.Stage(stage) + lane_ % 16 * Shape::kRankBytes + lane_ / 16 * 16;
    if (halves.left) MultiplyPieces<0, Shape::kPieces / 2>(b, in, sum);
    if (halves.right) MultiplyPieces<Shape::kPieces / 2, Shape::kPieces>(b, in, sum);
  }

  // Without a branch between them, so that they overlap.
  template <int kBegin, int kEnd>
  __device__ __forceinline__ void MultiplyPieces(uint32_t b, const bool (&in)[2],
                                                 float (&sum)[kSums]) const {
#pragma unroll
    for (int i = kBegin; i + 1 < kEnd; i += 2) {
      uint32_t pieces[4];
      LoadMatrices(b + i * 16, pieces);
      MultiplyPiece(pieces[0], pieces[1], in, sum + i * 4);
      MultiplyPiece(pieces[2], pieces[3], in, sum + i * 4 + 4);
    }
    if constexpr ((kEnd - kBegin) % 2 != 0) {
      uint32_t pieces[2];
      LoadMatrices(b + (kEnd - 1) * 16 - lane_ / 16 * 16, pieces);
      MultiplyPiece(pieces[0], pieces[1], in, sum + (kEnd - 1) * 4);
    }
  }

  // Eight columns.
  __device__ __forceinline__ void MultiplyPiece(uint32_t b0, uint32_t b1, const bool (&in)[2],
                                                float* sum) const {
    float delta[4] = {};
    MultiplyAdd(delta, high_, b0, b1);
    MultiplyAdd(delta, low_, b0, b1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (in[i / 2]) sum[i] = fmaf(scale_[i / 2], delta[i], sum[i]);
    }
  }

  const GemmLoraArgs& args_;
  const LoraArgs& lora_;
  const GemmLoraRing<Shape>& ring_;
  const int first_;  // row of the warp in the tile
  const int lane_;
  uint32_t tile_ = 0;
  int item_ = 0;
  uint32_t high_[4] = {};
  uint32_t low_[4] = {};
  float scale_[2] = {};
};

#endif  // GRAFT_HOPPER

}  // namespace graft
