// The GEMM kernel for Hopper of weights that are codes. One thread of a block, the producer, brings
// bricks of W (gemm_bricks.h) and boxes of x through a ring in shared memory. Each warpgroup makes
// numbers of 64 rows of W in registers, as the first operand, and multiplies kRows rows of x by
// them, while it makes the next numbers. An element of y is one accumulator's sum over a range of k
// in ascending steps of 16, of the same numbers that the other kernels multiply: all have the same
// bits. Where W has two ranges, a cluster of two blocks has one each.
#pragma once

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/gemm/gemm_codes_operands.cuh"
#include "kernels/gemm/gemm_hopper_codes_tiles.h"
#include "kernels/gemm/gemm_hopper_shape.cuh"
#include "kernels/gemm/gemm_hopper_swapped_store.cuh"

#if defined(GRAFT_HOPPER)
#include "kernels/common/cuda_wgmma.cuh"
#endif

namespace graft::codes {

struct HopperArgs : HopperGemmArgs {
  int num_bricks;    // of a strip
  int range_bricks;  // of the first range; all where there is one
  int brick_bytes;
  int entry_bytes;  // of a row's scale, with its zero point
  int row_entries;  // scales of a row of a brick
  int unit_shift;   // a unit's scale is entry (unit >> unit_shift)
  bool has_zero_points;
};

template <Kind kKindOf, size_t kTileOf, int kRangesOf>
struct HopperShape {
  static constexpr Kind kKind = kKindOf;
  static constexpr HopperTile kTile = kHopperTiles[kTileOf];
  static constexpr int kRanges = kRangesOf;
  static constexpr DType kType = DType::kBF16;
  static constexpr bool kSwapped = true;
  static constexpr bool kLora = false;
  using Args = HopperArgs;
  static constexpr int kGroups = kTile.groups;
  static constexpr int kRows = kTile.rows;
  static constexpr int kColumns = kGroups * 64;  // of y
  static constexpr int kStrips = kColumns / 8;
  static constexpr int kThreads = kGroups * kGroupThreads + 32;

  static constexpr int kBits = BitsOf(kKind);
  static constexpr bool kWide = IsWide(kKind);
  static constexpr int kCodeBytes = 128 * kBits;          // of a brick
  static constexpr int kUnitPieces = kBits == 4 ? 2 : 1;  // of 16 columns, in a word
  static constexpr int kUnits = 8 / kUnitPieces;          // of a brick
  // Small bricks come in pairs, where x leaves room: fewer copies of more bytes.
  static constexpr int kStageBricks = kBits == 4 && kRows <= 32 ? 2 : 1;
  static constexpr int kTableCopies = kKind == Kind::kNormal4 ? 16 : 0;
  static constexpr int kTableBytes = 256 * 8 * kTableCopies;
  static constexpr int kStagesMin = 3;

  static __device__ GemmTileColumns ColumnsOf(const Args& args, int column_tile) {
    if (args.activation.out == nullptr) return {column_tile * kColumns, 0};
    return {column_tile * (kColumns / 2), args.n / 2};
  }
};

#if defined(GRAFT_HOPPER)

// The bricks of this block: those of its range of k.
template <typename Shape>
struct BrickRange {
  int begin, count;

  __device__ explicit BrickRange(const HopperArgs& args) : begin(0), count(args.num_bricks) {
    if constexpr (Shape::kRanges == 2) {
      const bool is_second = ClusterBlockRank() != 0;
      begin = is_second ? args.range_bricks : 0;
      count = is_second ? args.num_bricks - args.range_bricks : args.range_bricks;
    }
  }
  __device__ int NumStages() const {
    return (count + Shape::kStageBricks - 1) / Shape::kStageBricks;
  }
};

// Barriers, then x of each stage in boxes of 64 columns, then W's bricks of each stage, strip by
// strip, then NF4's table. Boxes of x may have fewer than kRows rows: products then read on, for
// rows of y that are not stored.
template <typename Shape>
struct CodesRing {
  uint32_t full, empty, x, w, table;
  int x_stage_bytes, w_stage_bytes;

  __device__ CodesRing(const HopperArgs& args, char* shared) {
    x_stage_bytes = 2 * Shape::kStageBricks * args.x_box_bytes;
    w_stage_bytes = Shape::kStrips * Shape::kStageBricks * args.brick_bytes;
    full = SharedAddress(shared);
    empty = full + kGemmStagesMax * 8;
    x = full + kGemmBarrierBytes;
    w = x + args.num_stages * x_stage_bytes;
    table = w + args.num_stages * w_stage_bytes;
  }
  __device__ uint32_t Full(int stage) const { return full + stage * 8; }
  __device__ uint32_t Empty(int stage) const { return empty + stage * 8; }
  __device__ uint32_t X(int stage) const { return x + stage * x_stage_bytes; }
  __device__ uint32_t W(int stage) const { return w + stage * w_stage_bytes; }
};

// A place in the ring, and how often the ring was gone round before.
struct RingPlace {
  int stage = 0;
  uint32_t lap = 0;

  __device__ void Next(int num_stages) {
    if (++stage < num_stages) return;
    stage = 0;
    ++lap;
  }
};

// Run by one thread. A copy brings a stage's bricks of all strips of the tile, which lie in memory
// strip_bytes apart; with an activation strips of the gate and of up take turns. What is past W's
// end comes as zeros.
template <typename Shape>
struct CodesProducer {
  const HopperArgs& args;
  const CUtensorMap& x_map;
  const CUtensorMap& w_map;
  const CodesRing<Shape>& ring;
  const BrickRange<Shape> range;
  const int row;
  const int first_strip;

  __device__ void LoadW(int step, int stage) const {
    const int word = (range.begin + step * Shape::kStageBricks) * (args.brick_bytes / 8);
    const uint64_t cache = args.reads_once ? kCacheFirstOut : kCacheNormal;
    BarrierExpect(ring.Full(stage), ring.w_stage_bytes + ring.x_stage_bytes);
    CopyBox3(w_map, ring.W(stage), ring.Full(stage), word, 0, first_strip, cache);
  }
  __device__ void LoadX(int step, int stage) const {
    const int first = (range.begin + step * Shape::kStageBricks) * kBrickColumns;
#pragma unroll
    for (int box = 0; box < 2 * Shape::kStageBricks; ++box) {
      CopyBox(x_map, ring.X(stage) + box * args.x_box_bytes, ring.Full(stage),
              first + box * kBoxColumns, row, kCacheLastOut);
    }
  }

  // W is constant, so the ring's first lap of it is asked for before the wait for what the kernel
  // before this one writes.
  __device__ void Run() const {
    PrefetchMap(x_map);
    PrefetchMap(w_map);
    const int num_steps = range.NumStages();
    const int ahead = min(num_steps, args.num_stages);
    for (int step = 0; step < ahead; ++step) LoadW(step, step);
    WaitForPrevious();
    for (int step = 0; step < ahead; ++step) LoadX(step, step);
    RingPlace place{.stage = 0, .lap = 1};
    for (int step = ahead; step < num_steps; ++step, place.Next(args.num_stages)) {
      BarrierWait(ring.Empty(place.stage), (place.lap - 1) & 1);
      LoadW(step, place.stage);
      LoadX(step, place.stage);
    }
  }
};

// What a thread makes numbers of: its words of a brick's two strips, which are rows g and g + 8 of
// the first operand, g = lane / 4, and where one scale serves a brick, the scales.
template <typename Shape>
struct BrickWords {
  uint32_t words[2][Shape::kUnits];
  RowScale<Shape::kKind> rows[2];
  uint32_t entries[2];  // where the rows' scales lie

  // first: the warp's first strip's brick; the other strip's lies strip_step further on.
  __device__ __forceinline__ void Read(const HopperArgs& args, uint32_t first, int strip_step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row_bytes = Shape::kWide ? args.row_entries * args.entry_bytes : 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t brick = first + i * strip_step;
      entries[i] = brick + Shape::kCodeBytes + lane / 4 * row_bytes;
      if constexpr (!Shape::kWide) rows[i].Read(entries[i], false);
#pragma unroll
      for (int unit = 0; unit < Shape::kUnits; ++unit) {
        words[i][unit] = LoadSharedWord(brick + unit * 128 + lane * 4);
      }
    }
  }

  // The first operands of the four pieces of 16 columns of half `half`.
  __device__ __forceinline__ void Make(const HopperArgs& args, int half, uint32_t table,
                                       uint32_t (&numbers)[4][4]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int piece = 0; piece < 4; ++piece) {
        const int unit = (half * 4 + piece) / Shape::kUnitPieces;
        if constexpr (Shape::kWide) {
          if (piece % Shape::kUnitPieces == 0) {
            rows[i].Read(entries[i] + (unit >> args.unit_shift) * args.entry_bytes,
                         args.has_zero_points);
          }
        }
        const int pair = piece % Shape::kUnitPieces * 2;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          numbers[piece][j * 2 + i] = NumbersOf<Shape::kKind, Shape::kTableCopies>(
              words[i][unit], pair + j, rows[i], table);
        }
      }
    }
  }
};

template <typename Shape>
class CodesConsumer {
 public:
  static constexpr int kSums = Shape::kRows / 2;

  __device__ CodesConsumer(const HopperArgs& args, const CodesRing<Shape>& ring)
      : args_(args), ring_(ring), range_(args) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    strip_step_ = Shape::kStageBricks * args.brick_bytes;
    warp_place_ = warp * 2 * strip_step_;
    if constexpr (Shape::kTableCopies > 0) {
      table_ = ring.table + threadIdx.x % Shape::kTableCopies * 8;
    }
  }

  // The sums over the block's range.
  __device__ __forceinline__ void Multiply(float (&sum)[kSums]) {
    BrickWords<Shape> words[2];
    BarrierWait(ring_.Full(0), 0);
    words[0].Read(args_, BrickAt(0), strip_step_);
#pragma unroll 1
    for (int brick = 0; brick < range_.count; brick += 2) {
      MultiplyBrick(brick, words[0], words[1], sum);
      if (brick + 1 < range_.count) MultiplyBrick(brick + 1, words[1], words[0], sum);
    }
    WgmmaWait<0>();
    WgmmaKeep(sum);
  }

 private:
  // Starts the products of a brick that has been read, and reads the next one.
  __device__ __forceinline__ void MultiplyBrick(int brick, BrickWords<Shape>& words,
                                                BrickWords<Shape>& next, float (&sum)[kSums]) {
    const int of_stage = brick % Shape::kStageBricks;
    const uint32_t boxes = ring_.X(read_.stage) + of_stage * 2 * args_.x_box_bytes;
    const int stage = read_.stage;
    if (brick + 1 < range_.count) {
      const int next_of_stage = (brick + 1) % Shape::kStageBricks;
      if (next_of_stage == 0) {
        read_.Next(args_.num_stages);
        BarrierWait(ring_.Full(read_.stage), read_.lap & 1);
      }
      next.Read(args_, BrickAt(next_of_stage), strip_step_);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      words.Make(args_, half, table_, numbers_[half]);
      WgmmaFence();
      const uint64_t x = WgmmaOperand(boxes + half * args_.x_box_bytes);
#pragma unroll
      for (int piece = 0; piece < 4; ++piece) {
        WgmmaOfRegisters<Shape::kRows>::Multiply(numbers_[half][piece], x + 2 * piece,
                                                 brick | half | piece, sum);
      }
      WgmmaCommit();
      WgmmaWait<1>();
      if (half == 0 && of_stage == 0) {
        if (before_ >= 0) Release(before_);
        before_ = stage;
      }
    }
  }

  __device__ __forceinline__ uint32_t BrickAt(int of_stage) const {
    return ring_.W(read_.stage) + warp_place_ + of_stage * args_.brick_bytes;
  }
  // Says that this warp no longer reads the stage.
  __device__ void Release(int stage) const {
    if (threadIdx.x % 32 == 0) BarrierArrive(ring_.Empty(stage));
  }

  const HopperArgs& args_;
  const CodesRing<Shape>& ring_;
  const BrickRange<Shape> range_;
  int strip_step_, warp_place_;
  uint32_t table_ = 0;
  uint32_t numbers_[2][4][4];  // of the two halves of a brick
  RingPlace read_;             // the stage of the words that were read last
  int before_ = -1;            // the stage before it, where products of it may still run
};

// Where W has two ranges, the first one's block writes its sums to the other block's ring, which
// nothing reads by then, and the other one stores both.
template <typename Shape>
__device__ __forceinline__ void StoreRanges(const HopperArgs& args, const CodesRing<Shape>& ring,
                                            bool multiplies, int row, int column_tile,
                                            float (&sum)[Shape::kRows / 2]) {
  const uint32_t place = ring.x + threadIdx.x % kGroupThreads * 8;
  constexpr int kStep = kGroupThreads * 8;
  const bool is_first = ClusterBlockRank() == 0;
  ClusterSync();
  if (multiplies && is_first) {
#pragma unroll
    for (int i = 0; i < Shape::kRows / 2; i += 2) {
      StoreFloat2At(place + i / 2 * kStep, 1, sum[i], sum[i + 1]);
    }
  }
  ClusterSync();
  if (!multiplies || is_first) return;
  float before[Shape::kRows / 2];
#pragma unroll
  for (int i = 0; i < Shape::kRows / 2; i += 2) {
    const float2 pair = LoadSharedFloat2(place + i / 2 * kStep);
    before[i] = pair.x;
    before[i + 1] = pair.y;
  }
  GemmSwappedStore<Shape>(args, row, column_tile).Store(sum, before);
}

#endif  // GRAFT_HOPPER

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1) GRAFT_CLUSTER_BLOCKS(Shape::kRanges)
    HopperCodes(const __grid_constant__ HopperArgs args, const __grid_constant__ CUtensorMap x_map,
                const __grid_constant__ CUtensorMap w_map) {
#if defined(GRAFT_HOPPER)
  extern __shared__ __align__(1024) char shared[];
  const CodesRing<Shape> ring(args, shared);
  const int tile = static_cast<int>(blockIdx.x) / Shape::kRanges;
  const int row = tile % args.num_row_tiles * Shape::kRows;
  const int column_tile = tile / args.num_row_tiles;
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < args.num_stages) {
    BarrierInit(ring.Full(thread), 1);
    BarrierInit(ring.Empty(thread), Shape::kGroups * 4);
    BarrierInitDone();
  }
  __syncthreads();
  constexpr int kMultiplying = Shape::kGroups * kGroupThreads;
  const bool multiplies = thread < kMultiplying;
  float sum[Shape::kRows / 2];
  if (!multiplies) {
    if (thread == kMultiplying) {
      const int first_strip = Shape::ColumnsOf(args, column_tile).first / 8;
      CodesProducer<Shape>{args, x_map, w_map, ring, BrickRange<Shape>(args), row, first_strip}
          .Run();
    }
    __syncwarp();
  } else {
    if constexpr (Shape::kTableCopies > 0) {
      WriteTable<kMultiplying, Shape::kTableCopies>(ring.table);
      SyncThreads<kMultiplying, 1>();
    }
    WaitForPrevious();
    // Not earlier: the next kernel may be LoRA's shrink, which then relies on x being there
    // (LoraArgs::follows_product). Its blocks begin as this kernel's leave.
    LetNextStart();
    CodesConsumer<Shape>(args, ring).Multiply(sum);
    if constexpr (Shape::kRanges == 1) {
      GemmSwappedStore<Shape>(args, row, column_tile).Store(sum);
    }
  }
  if constexpr (Shape::kRanges == 2) {
    StoreRanges<Shape>(args, ring, multiplies, row, column_tile, sum);
  }
#else
  __trap();  // a launcher looks at DeviceTraits first
#endif
}

}  // namespace graft::codes
