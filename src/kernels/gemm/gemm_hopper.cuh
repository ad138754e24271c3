// The GEMM kernel for Hopper, for every m. One thread of a block, the producer, streams boxes of 64
// columns of x and of W through a ring in shared memory. Each of the other warpgroups multiplies 64
// rows of x by kColumns rows of W or, in swapped tiles, 64 rows of W by kRows rows of x. Whatever
// the tile's shape, every element of y is one accumulator's sum over k in ascending steps of 16.
// That is Gemm's promise, it holds by construction, and so each call may choose its tile freely.
#pragma once

#include <type_traits>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_hopper_lora.cuh"
#include "kernels/gemm/gemm_hopper_silu.cuh"
#include "kernels/gemm/gemm_hopper_store.cuh"
#include "kernels/gemm/gemm_hopper_swapped_store.cuh"

#if defined(GRAFT_HOPPER)
#include "kernels/common/cuda_wgmma.cuh"
#endif

namespace graft {

inline constexpr int kBoxColumns = 64;  // two-byte elements: the width of a swizzled row
inline constexpr int kGroupThreads = 128;
inline constexpr int kTransposedGroupBytes = kBoxColumns * 128;  // of 64 columns of y
inline constexpr int kGemmStagesMax = 30;
// The barriers lie in shared memory before the ring: those of x and W, and those of LoRA.
inline constexpr int kGemmBarrierBytes = 1024;
static_assert(kGemmStagesMax * 16 + kLoraBarrierBytes + 16 <= kGemmBarrierBytes);

// Row tiles that are visited before the next rows of W: so much of x the second-level cache holds.
inline constexpr int kGemmRowTilesPerVisit = 16;

struct HopperGemmArgs {
  float* y;
  int64_t y_stride;
  const float* bias;
  const void* x;  // for shapes that read x without the copy engine
  int64_t x_stride;
  int m;
  int n;
  int k;
  int num_steps;         // stages per tile
  int num_row_tiles;     // tiles of x's rows
  int num_column_tiles;  // tiles of W's rows
  int num_stages;
  int x_box_bytes;  // 128 times the rows of a box of x, which are 8 to kRows
  bool accumulate;
  bool quads;                 // y may be written sixteen bytes at a time
  bool reads_once;            // no tile of W is read twice
  GemmActivation activation;  // if set, is written in place of y
  GemmDelta delta;            // added last
  GemmPace pace;              // used together with a delta
};

struct HopperLoraGemmArgs : HopperGemmArgs {
  int kept_begin, kept_end;  // rows of y that are written although there is an activation
  uint16_t* copy;            // [m, n], or null: y, rounded, beside an activation
  GemmLoraArgs lora;
};

// kGroups: the warpgroups that multiply, each with 64 rows of x or, in a swapped tile, of W.
// kWidth: a tile's rows of the other operand. Rows of x may be any multiple of 16, so that little
// of a prompt is padding. kBoxes: boxes per operand and stage. kBlocks: thread blocks of a cluster.
// They work on neighbouring tiles and share either x (the same rows, different columns of y) or W
// (kShareW). Each loads its part of the shared operand into all of them.
template <DType kTypeOf, int kGroupsOf, int kWidthOf, int kBoxesOf, int kBlocksOf, bool kShareWOf,
          bool kSwappedOf = false, bool kCopyXOf = false, bool kLoraOf = false,
          bool kTransposedOf = false>
struct HopperGemmShape {
  static constexpr DType kType = kTypeOf;
  static constexpr int kGroups = kGroupsOf;
  static constexpr int kWidth = kWidthOf;
  static constexpr bool kSwapped = kSwappedOf;
  static constexpr int kRows = kSwapped ? kWidth : kGroups * 64;
  static constexpr int kColumns = kSwapped ? kGroups * 64 : kWidth;
  static constexpr int kBoxes = kBoxesOf;
  static constexpr int kBlocks = kBlocksOf;
  static constexpr bool kShareW = kShareWOf;
  static constexpr bool kCopyX = kCopyXOf;  // the copy engine cannot read x
  static constexpr bool kLora = kLoraOf;    // LoRA's terms end the sums of y
  // W lies by rows of k: a box of it is 64 of these, by 64 columns of y after the other.
  static constexpr bool kTransposed = kTransposedOf;
  using Args = std::conditional_t<kLora, HopperLoraGemmArgs, HopperGemmArgs>;
  // Where the sums need many registers, the producer's warpgroup gives up most of its own.
  static constexpr bool kMovesRegisters = kGroups > 1;
  // Of 65,536 registers: what each of the producer's threads keeps, and a multiplying one gets.
  static constexpr int kFewRegisters = kGroups == 3 ? 56 : 40;
  static constexpr int kManyRegisters = kGroups == 3 ? 152 : 232;
  using Lora = GemmLoraShape<kRows, kColumns, kGroups * 4, kSwapped>;
  static constexpr int kHelpers = kMovesRegisters ? 4 : kLora ? 1 + kLoraLoaders : 1;  // warps
  static constexpr int kThreads = kGroups * kGroupThreads + kHelpers * 32;
  static constexpr int kWBoxBytes = kColumns * 128;
  // With an activation, half of a tile's columns are the gate's and half are up's, in whole pieces
  // of eight columns. They lie as two halves (gemm_hopper_silu.cuh) or, in a swapped tile, piece by
  // piece in turns (gemm_hopper_swapped_store.cuh).
  static constexpr bool kActivates = kColumns % 16 == 0;
  // Memory beside the ring for gemm_hopper_store.cuh: 16 rows of 32 columns of each warp.
  static constexpr int kStagingBytes = !kSwapped && kGroups > 1 ? kGroups * 4 * 16 * 128 : 0;
  // In a cluster of two blocks that share W, each block loads half of every box of W. With an
  // activation one block's half is the gate's rows and the other's is up's; in a swapped tile each
  // half has some of both. In larger clusters the blocks load whole boxes in turn.
  static constexpr bool kSplitsW = kShareW && kBlocks == 2;
  // Where x is shared, each block loads its part of the rows of every box.
  static constexpr bool kSplitsX = !kShareW && kBlocks > 1;
  static_assert(!kSplitsW || kColumns % (8 * kBlocks) == 0);
  static_assert(!kSplitsX || kRows % (8 * kBlocks) == 0);
  static_assert(!kTransposed || (!kSwapped && !kCopyX && (kBlocks == 1 || kSplitsW) &&
                                 kColumns % (64 * kBlocks) == 0));
  static_assert(!kCopyX || kBlocks == 1);
  static_assert(!kSwapped || (kRows % 16 == 0 && !kCopyX && kBlocks <= 2));

  static __device__ GemmTileColumns ColumnsOf(const Args& args, int column_tile) {
    if (args.activation.out == nullptr) return {column_tile * kColumns, 0};
    return {column_tile * (kColumns / 2), kSwapped ? args.n / 2 : (args.n - kColumns) / 2};
  }
};

#if defined(GRAFT_HOPPER)

template <typename Shape>
struct HopperGemmRing {
  uint32_t full;     // one barrier per stage: the stage's boxes have arrived
  uint32_t empty;    // one barrier per stage: every block of the cluster has multiplied it
  uint32_t x;        // [stage][box][x_box_bytes]
  uint32_t staging;  // kStagingBytes
  uint32_t w;  // [stage][box][kWBoxBytes]. Where boxes of x are lower than kRows, products read on
               // into the next box or here: rows of y that nobody stores.
  GemmLoraRing<typename Shape::Lora> lora;

  __device__ HopperGemmRing(const typename Shape::Args& args, char* shared) {
    full = SharedAddress(shared);
    empty = full + kGemmStagesMax * 8;
    x = full + kGemmBarrierBytes;
    w = x + args.num_stages * Shape::kBoxes * args.x_box_bytes;
    staging = w + args.num_stages * Shape::kBoxes * Shape::kWBoxBytes;
    if constexpr (Shape::kLora) {
      lora.barriers = empty + kGemmStagesMax * 8;
      lora.stages = staging + Shape::kStagingBytes;
      const uint32_t table = lora.stages + (Shape::Lora::kStageBytes << args.lora.num_stages_log2);
      lora.table = reinterpret_cast<GemmLoraTable<Shape::kRows>*>(shared + (table - full));
      lora.num_stages_log2 = args.lora.num_stages_log2;
    }
  }

  __device__ uint32_t XReady() const { return full + kGemmBarrierBytes - 8; }
  __device__ uint32_t DeltaThere() const { return full + kGemmBarrierBytes - 16; }
  __device__ uint32_t Full(int stage) const { return full + stage * 8; }
  __device__ uint32_t Empty(int stage) const { return empty + stage * 8; }
  __device__ uint32_t X(const HopperGemmArgs& args, int stage, int box) const {
    return x + (stage * Shape::kBoxes + box) * args.x_box_bytes;
  }
  __device__ uint32_t W(int stage, int box) const {
    return w + (stage * Shape::kBoxes + box) * Shape::kWBoxBytes;
  }
};

// Walks over this block's tiles and, inside each tile, over k, in the order of the ring's stages.
template <typename Shape>
struct HopperGemmWalk {
  int item;
  int num_items;
  int step = 0;
  int stage = 0;
  uint32_t lap = 0;
  int row_tile = 0;
  int column_tile = 0;

  __device__ explicit HopperGemmWalk(const HopperGemmArgs& args)
      : item(static_cast<int>(blockIdx.x) / Shape::kBlocks) {
    num_items = RowItems(args) * ColumnItems(args);
    Locate(args);
  }
  static __device__ int RowItems(const HopperGemmArgs& args) {
    return Shape::kShareW ? (args.num_row_tiles + Shape::kBlocks - 1) / Shape::kBlocks
                          : args.num_row_tiles;
  }
  static __device__ int ColumnItems(const HopperGemmArgs& args) {
    return Shape::kShareW ? args.num_column_tiles
                          : (args.num_column_tiles + Shape::kBlocks - 1) / Shape::kBlocks;
  }
  __device__ bool Done() const { return item >= num_items; }
  __device__ int NextItem() const { return item + static_cast<int>(gridDim.x) / Shape::kBlocks; }
  __device__ bool IsLast() const { return NextItem() >= num_items; }
  __device__ void Locate(const HopperGemmArgs& args) {
    const int column_items = ColumnItems(args);
    const int visit = item / (kGemmRowTilesPerVisit * column_items);
    const int first = visit * kGemmRowTilesPerVisit;
    const int rows = min(kGemmRowTilesPerVisit, RowItems(args) - first);
    const int rest = item - first * column_items;
    row_tile = first + rest % rows;
    column_tile = rest / rows;
    if constexpr (Shape::kBlocks > 1) {
      int& shared_out = Shape::kShareW ? row_tile : column_tile;
      shared_out = shared_out * Shape::kBlocks + static_cast<int>(ClusterBlockRank());
    }
  }
  __device__ void NextStage(const HopperGemmArgs& args) {
    if (++stage == args.num_stages) {
      stage = 0;
      ++lap;
    }
  }
  __device__ void NextTile(const HopperGemmArgs& args) {
    step = 0;
    item = NextItem();
    if (!Done()) Locate(args);
  }
  __device__ void Next(const HopperGemmArgs& args) {
    NextStage(args);
    if (++step == args.num_steps) NextTile(args);
  }
};

// Waits until x, and what earlier kernels left in y, may be read. With a delta the thread that
// looks for x itself does not call it.
template <typename Args>
__device__ __forceinline__ void AwaitX(const Args& args, uint32_t barrier) {
  if constexpr (std::is_same_v<Args, HopperLoraGemmArgs>) {
    if (!args.lora.lora.precedes_product) return WaitForPrevious();
    SeeWhatPreviousSaw();  // LoraShrink saw them before it let this kernel begin
  } else {
    WaitForX(args.delta, barrier);
  }
}

template <typename Shape>
struct HopperGemmProducer {
  const typename Shape::Args& args;
  const CUtensorMap& x_map;
  const CUtensorMap& w_map;
  const HopperGemmRing<Shape>& ring;
  static constexpr uint16_t kAllBlocks = (1u << Shape::kBlocks) - 1;

  // Groups of 64 columns of y, of which each block of a cluster brings its share to all.
  __device__ void LoadTransposedW(const HopperGemmWalk<Shape>& walk, uint64_t cache) const {
    constexpr int kGroups = Shape::kColumns / 64 / Shape::kBlocks;
    const int first = Shape::kBlocks > 1 ? static_cast<int>(ClusterBlockRank()) * kGroups : 0;
    const uint32_t full = ring.Full(walk.stage);
#pragma unroll
    for (int i = 0; i < Shape::kBoxes * kGroups; ++i) {
      const int box = i / kGroups;
      const int group = first + i % kGroups;
      const int row = (walk.step * Shape::kBoxes + box) * kBoxColumns;
      const int column = walk.column_tile * Shape::kColumns + group * 64;
      const uint32_t target = ring.W(walk.stage, box) + group * kTransposedGroupBytes;
      if constexpr (Shape::kBlocks > 1) {
        CopyBoxToAll(w_map, target, full, column, row, kAllBlocks, cache);
      } else {
        CopyBox(w_map, target, full, column, row, cache);
      }
    }
  }

  __device__ void LoadW(const HopperGemmWalk<Shape>& walk) const {
    const uint64_t cache = args.reads_once ? kCacheFirstOut : kCacheNormal;
    if constexpr (Shape::kTransposed) return LoadTransposedW(walk, cache);
    const uint32_t full = ring.Full(walk.stage);
    const int row = Shape::ColumnsOf(args, walk.column_tile).first;
#pragma unroll
    for (int box = 0; box < Shape::kBoxes; ++box) {
      const int column = (walk.step * Shape::kBoxes + box) * kBoxColumns;
      const uint32_t target = ring.W(walk.stage, box);
      if constexpr (Shape::kShareW && Shape::kBlocks > 2) {
        const int turn = (walk.stage * Shape::kBoxes + box) % Shape::kBlocks;
        if (turn != static_cast<int>(ClusterBlockRank())) continue;
        CopyBox3ToAll(w_map, target, full, column, row, 0, kAllBlocks, cache);
      } else if constexpr (Shape::kSplitsW) {
        const int rank = static_cast<int>(ClusterBlockRank());
        const int shift = rank * (Shape::kColumns / Shape::kBlocks);
        const bool by_parts = args.activation.out != nullptr;
        if (Shape::kSwapped && by_parts) {
          CopyBox4ToAll(w_map, target + shift * 128, full, column, 0, 0, (row + shift / 2) / 8,
                        kAllBlocks, cache);
          continue;
        }
        CopyBox3ToAll(w_map, target + shift * 128, full, column, by_parts ? row : row + shift,
                      by_parts ? rank : 0, kAllBlocks, cache);
      } else if (Shape::kSwapped && args.activation.out != nullptr) {
        CopyBox4(w_map, target, full, column, 0, 0, row / 8, cache);
      } else {
        CopyBox3(w_map, target, full, column, row, 0, cache);
      }
    }
  }

  __device__ void LoadX(const HopperGemmWalk<Shape>& walk) const {
    const uint32_t full = ring.Full(walk.stage);
#pragma unroll
    for (int box = 0; box < Shape::kBoxes; ++box) {
      const int column = (walk.step * Shape::kBoxes + box) * kBoxColumns;
      const int row = walk.row_tile * Shape::kRows;
      const uint32_t target = ring.X(args, walk.stage, box);
      if constexpr (Shape::kSplitsX) {
        const int shift = static_cast<int>(ClusterBlockRank()) * (Shape::kRows / Shape::kBlocks);
        CopyBoxToAll(x_map, target + shift * 128, full, column, row + shift, kAllBlocks,
                     kCacheLastOut);
      } else {
        CopyBox(x_map, target, full, column, row, kCacheLastOut);
      }
    }
  }

  // Run by one thread. W is constant, so the ring's first lap of W is asked for before the wait for
  // what the kernel before this one writes.
  __device__ void Run() const {
    const uint32_t bytes = Shape::kBoxes * (Shape::kWBoxBytes + args.x_box_bytes);
    PrefetchMap(x_map);
    PrefetchMap(w_map);
    if (args.delta.values != nullptr) return RunPaced(bytes);
    HopperGemmWalk<Shape> walk(args);
    HopperGemmWalk<Shape> x_walk = walk;
    for (; CanStart(walk); walk.Next(args)) {
      BarrierExpect(ring.Full(walk.stage), bytes);
      LoadW(walk);
    }
    AwaitX(args, ring.XReady());
    for (; CanStart(x_walk); x_walk.Next(args)) LoadX(x_walk);
    for (; !walk.Done(); walk.Next(args)) {
      if (walk.lap > 0) BarrierWait(ring.Empty(walk.stage), (walk.lap - 1) & 1);
      BarrierExpect(ring.Full(walk.stage), bytes);
      LoadW(walk);
      LoadX(walk);
    }
  }

  // Run() with a delta. No more of W is on its way than keeps memory busy: LoRA's reads queue
  // behind it, and its chain of dependent reads would outlast the product. Until x is there no
  // stage gets full, so the clock tells what must have come.
  __device__ void RunPaced(uint32_t bytes) const {
    HopperGemmWalk<Shape> walk(args);
    HopperGemmWalk<Shape> x_walk = walk;
    HopperGemmWalk<Shape> landed = walk;
    int column_tile = walk.column_tile;  // of the last stage asked for
    int on_way = 0;                      // stages from landed to walk
    const uint32_t step = *args.delta.step;
    const int64_t begin = clock64();
    do {
      for (; CanStart(walk) && MayStart(on_way, begin); walk.Next(args), ++on_way) {
        BarrierExpect(ring.Full(walk.stage), bytes);
        LoadW(walk);
        column_tile = walk.column_tile;
      }
    } while (!args.delta.XIsReady(step));
    TellXIsReady(ring.XReady());
    for (int i = 0; i < on_way; ++i, x_walk.Next(args)) LoadX(x_walk);
    for (; !walk.Done(); walk.Next(args), ++on_way) {
      for (; on_way >= args.pace.stages; --on_way, landed.Next(args)) {
        BarrierWait(ring.Full(landed.stage), landed.lap & 1);
      }
      if (walk.lap > 0) BarrierWait(ring.Empty(walk.stage), (walk.lap - 1) & 1);
      BarrierExpect(ring.Full(walk.stage), bytes);
      LoadW(walk);
      LoadX(walk);
      column_tile = walk.column_tile;
    }
    if (args.delta.box_bytes > 0) LoadDelta(walk, column_tile);
  }

  // Brings the last tile's delta to the stage after W's last one, once LoRA's kernel has ended.
  __device__ void LoadDelta(const HopperGemmWalk<Shape>& end, int column_tile) const {
    const auto columns = Shape::ColumnsOf(args, column_tile);
    const bool activates = args.activation.out != nullptr;
    const uint32_t target = ring.W(end.stage, 0);
    PrefetchMap(args.delta.map);
    WaitForPrevious();
    if (end.lap > 0) BarrierWait(ring.Empty(end.stage), (end.lap - 1) & 1);
    BarrierExpect(ring.DeltaThere(), args.delta.box_bytes * (activates ? 2 : 1));
    CopyBox(args.delta.map, target, ring.DeltaThere(), columns.first, 0, kCacheNormal);
    if (!activates) return;
    CopyBox(args.delta.map, target + args.delta.SecondBox(), ring.DeltaThere(),
            columns.first + args.n / 2, 0, kCacheNormal);
  }

  __device__ bool MayStart(int on_way, int64_t begin) const {
    const int64_t late = on_way + 1 - args.pace.stages;
    return late <= 0 || clock64() - begin >= late * args.pace.stage_cycles;
  }

  // Whether the stage has not been used yet.
  __device__ bool CanStart(const HopperGemmWalk<Shape>& walk) const {
    return !walk.Done() && walk.lap == 0;
  }

  // What one of the warps that load LoRA's operands does.
  __device__ void RunLora(int loader_idx) const {
    GemmLoraLoader<typename Shape::Lora> loader(args.lora, ring.lora, loader_idx);
    for (HopperGemmWalk<Shape> walk(args); !walk.Done(); walk.NextTile(args)) {
      loader.LoadTile(walk.row_tile * Shape::kRows, Shape::ColumnsOf(args, walk.column_tile));
    }
    WaitForPrevious();  // also without items: the next kernel relies on it
  }

  // Run by a warp, where odd strides or addresses keep the copy engine from reading x.
  __device__ void RunCopyingX() const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0 && args.delta.values != nullptr) {
      const uint32_t step = *args.delta.step;
      while (!args.delta.XIsReady(step)) {
      }
      TellXIsReady(ring.XReady());
    }
    AwaitX(args, ring.XReady());
    HopperGemmWalk<Shape> walk(args);
    for (; !walk.Done(); walk.Next(args)) {
      if (walk.lap > 0) BarrierWait(ring.Empty(walk.stage), (walk.lap - 1) & 1);
      for (int box = 0; box < Shape::kBoxes; ++box) CopyX(walk, box, lane);
      FenceForAsync();
      __syncwarp();
      if (lane == 0) {
        BarrierExpect(ring.Full(walk.stage), Shape::kBoxes * Shape::kWBoxBytes);
        LoadW(walk);
      }
      __syncwarp();
    }
  }

  __device__ void CopyX(const HopperGemmWalk<Shape>& walk, int box, int lane) const {
    const uint32_t target = ring.X(args, walk.stage, box);
    const int first_column = (walk.step * Shape::kBoxes + box) * kBoxColumns;
    const auto* x = static_cast<const uint16_t*>(args.x);
    for (int i = lane; i < args.x_box_bytes / 16; i += 32) {
      const int local = i / 8;
      const int piece = i % 8;
      const int row = walk.row_tile * Shape::kRows + local;
      uint32_t words[4] = {};
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int column = first_column + piece * 8 + j;
        if (row >= args.m || column >= args.k) continue;
        words[j / 2] |= static_cast<uint32_t>(x[row * args.x_stride + column]) << (j % 2 * 16);
      }
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(target + local * 128 +
                                                                    ((piece ^ (local % 8)) * 16)),
                   "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                   : "memory");
    }
  }
};

struct NoLora {
  __device__ NoLora(const auto& /*args*/, const auto& /*ring*/) {}
};

template <typename Shape>
struct HopperGemmConsumer {
  const typename Shape::Args& args;
  const HopperGemmRing<Shape>& ring;
  static constexpr int kSums = Shape::kWidth / 2;
  // Whether all warps store a tile together, by way of the ring.
  static constexpr bool kStoresTogether = Shape::kGroups == 1 && !Shape::kSwapped;
  using Old = typename GemmTileStore<Shape>::Old;

  // Says that this warp no longer reads the stage.
  __device__ void Release(int stage) const {
    const uint32_t lane = threadIdx.x % 32;
    if constexpr (Shape::kBlocks > 1) {
      if (lane < Shape::kBlocks) BarrierArriveAt(ring.Empty(stage), lane);
    } else if (lane == 0) {
      BarrierArrive(ring.Empty(stage));
    }
  }

  __device__ void Run() const {
    const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
    AwaitX(args, ring.XReady());
    // Not earlier: the next kernel may be LoRA's shrink, which then relies on x being there
    // (LoraArgs::follows_product). Its blocks begin as this kernel's leave.
    LetNextStart();
    std::conditional_t<Shape::kLora, GemmLoraAdder<typename Shape::Lora>, NoLora> lora(args, ring);
    for (HopperGemmWalk<Shape> walk(args); !walk.Done(); walk.NextTile(args)) {
      float sum[kSums];
      int before = 0;
      const int row = walk.row_tile * Shape::kRows + (Shape::kSwapped ? 0 : group * 64);
      Old old;
      if constexpr (kStoresTogether) {
        GemmTileStore<Shape>(args, row, walk.column_tile, 0).LoadOld(old);
      }
      if constexpr (Shape::kLora) {
        MultiplyStage(walk, group, 0, sum);
        WgmmaWait<0>();
        WgmmaKeep(sum);
        before = walk.stage;
        walk.NextStage(args);
        walk.step = 1;
      }
      for (; walk.step < args.num_steps; ++walk.step) {
        MultiplyStage(walk, group, Shape::kLora ? 1 : walk.step, sum);
        WgmmaWait<1>();
        if (walk.step > 0) Release(before);
        before = walk.stage;
        walk.NextStage(args);
      }
      WgmmaWait<0>();
      if constexpr (Shape::kLora) {
        WgmmaKeep(sum);
        lora.Add(sum);
      }
      Finish(walk, row, before, old, sum);
    }
  }

  // Stores a tile's sums, and gives back the stage that was multiplied last.
  __device__ __forceinline__ void Finish(const HopperGemmWalk<Shape>& walk, int row, int stage,
                                         Old& old, float (&sum)[kSums]) const {
    const bool exists = walk.column_tile < args.num_column_tiles && row < args.m;
    if constexpr (Shape::kSwapped) {
      Release(stage);
      WgmmaKeep(sum);
      if (exists) GemmSwappedStore<Shape>(args, row, walk.column_tile).Store(sum);
    } else if constexpr (kStoresTogether) {
      WgmmaKeep(sum);
      const bool last = walk.IsLast();
      const uint32_t delta = AwaitDelta(walk, last);
      // After its last tile the block may use the whole ring, except where the delta lies. Before
      // that it may use this stage alone.
      const int scratch = !last ? stage : delta == ring.W(0, 0) ? 1 : 0;
      if (exists) {
        using TileStore = GemmTileStore<Shape>;
        TileStore(args, row, walk.column_tile, delta)
            .Store(ring.W(scratch, 0), last ? 64 : TileStore::kRowsPerStage, old, sum);
      }
      if (last) return;
      FenceForAsync();
      __syncwarp();
      Release(stage);
    } else {
      Release(stage);
      WgmmaKeep(sum);
      if (!exists) return;
      if constexpr (Shape::kActivates) {
        if (args.activation.out != nullptr) {
          return GemmActivator<Shape>{args, ring.staging}.Store(walk.column_tile, row, sum);
        }
      }
      GemmWarpStore<Shape>(args, ring.staging, row, walk.column_tile).Store(sum);
    }
  }

  // Waits for all of the delta. Returns its place in shared memory, or 0 if it is not there.
  __device__ __forceinline__ uint32_t AwaitDelta(const HopperGemmWalk<Shape>& end,
                                                 bool last) const {
    if (args.delta.values == nullptr) return 0;
    if (!last || args.delta.box_bytes == 0) {
      WaitForPrevious();
      return 0;
    }
    BarrierWait(ring.DeltaThere(), 0);
    return ring.W(end.stage, 0);
  }

  // Starts the products of a stage. With `add` 0 the sums start from zero.
  __device__ __forceinline__ void MultiplyStage(const HopperGemmWalk<Shape>& walk, int group,
                                                int add, float (&sum)[kSums]) const {
    BarrierWait(ring.Full(walk.stage), walk.lap & 1);
    WgmmaFence();
#pragma unroll
    for (int box = 0; box < Shape::kBoxes; ++box) {
      const int shift = group * 64 * 128;
      const uint64_t x =
          WgmmaOperand(ring.X(args, walk.stage, box) + (Shape::kSwapped ? 0 : shift));
      if constexpr (Shape::kTransposed) {
        const uint64_t rows = WgmmaOperandOfRows(ring.W(walk.stage, box), kTransposedGroupBytes);
#pragma unroll
        for (int i = 0; i < kBoxColumns / 16; ++i) {
          constexpr int kStep = 16 * 128 / 16;  // 16 rows of 128 bytes
          Wgmma<Shape::kType, Shape::kWidth, WgmmaByRows::kSecond>::Multiply(
              x + 2 * i, rows + kStep * i, add | box | i, sum);
        }
        continue;
      }
      const uint64_t w = WgmmaOperand(ring.W(walk.stage, box) + (Shape::kSwapped ? shift : 0));
#pragma unroll
      for (int i = 0; i < kBoxColumns / 16; ++i) {
        Wgmma<Shape::kType, Shape::kWidth>::Multiply((Shape::kSwapped ? w : x) + 2 * i,
                                                     (Shape::kSwapped ? x : w) + 2 * i,
                                                     add | box | i, sum);
      }
    }
    WgmmaCommit();
  }
};

#endif  // GRAFT_HOPPER

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1) GRAFT_CLUSTER_BLOCKS(Shape::kBlocks)
    HopperGemm(const __grid_constant__ typename Shape::Args args,
               const __grid_constant__ CUtensorMap x_map,
               const __grid_constant__ CUtensorMap w_map) {
#if defined(GRAFT_HOPPER)
  extern __shared__ __align__(1024) char shared[];
  const HopperGemmRing<Shape> ring(args, shared);
  static_assert(kGemmStagesMax <= Shape::kThreads);
  if (static_cast<int>(threadIdx.x) < args.num_stages) {
    BarrierInit(ring.Full(threadIdx.x), 1);
    BarrierInit(ring.Empty(threadIdx.x), Shape::kGroups * 4 * Shape::kBlocks);
    if (threadIdx.x == 0) {
      BarrierInit(ring.XReady(), 1);
      BarrierInit(ring.DeltaThere(), 1);
    }
    BarrierInitDone();
  }
  if constexpr (Shape::kLora) ring.lora.Init();
  if constexpr (Shape::kBlocks > 1) {
    ClusterSync();
  } else {
    __syncthreads();
  }
  if (threadIdx.x >= Shape::kGroups * kGroupThreads) {
    if constexpr (Shape::kMovesRegisters) GiveRegisters<Shape::kFewRegisters>();
    const HopperGemmProducer<Shape> producer{args, x_map, w_map, ring};
    const int thread = static_cast<int>(threadIdx.x) - Shape::kGroups * kGroupThreads;
    if constexpr (Shape::kLora) {
      const int loader = thread / 32 - 1;
      if (loader >= 0 && loader < kLoraLoaders) producer.RunLora(loader);
    }
    if constexpr (Shape::kCopyX) {
      if (thread < 32) producer.RunCopyingX();
    } else if (thread == 0) {
      producer.Run();
    }
    __syncwarp();
  } else {
    if constexpr (Shape::kMovesRegisters) TakeRegisters<Shape::kManyRegisters>();
    HopperGemmConsumer<Shape>{args, ring}.Run();
  }
  // A block's shared memory must live until no block of the cluster writes to it or arrives at it.
  if constexpr (Shape::kBlocks > 1) ClusterSync();
#else
  __trap();  // a launcher looks at DeviceTraits first
#endif
}

}  // namespace graft
