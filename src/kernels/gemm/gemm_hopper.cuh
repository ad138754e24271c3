// The GEMM kernel for Hopper, for every m. One thread of a block, the producer, streams boxes of 64
// columns of x and of W through a ring in shared memory. Each of the other warpgroups multiplies 64
// rows of x by kColumns rows of W or, in swapped tiles, 64 rows of W by kRows rows of x. Whatever
// the tile's shape, every element of y is one accumulator's sum over k in ascending steps of 16.
// That is Gemm's promise, it holds by construction, and so each call may choose its tile freely.
#pragma once

#include <type_traits>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/common/cuda_tma.cuh"
#include "kernels/gemm/gemm_hopper_lora.cuh"
#include "kernels/gemm/gemm_hopper_shape.cuh"
#include "kernels/gemm/gemm_hopper_silu.cuh"
#include "kernels/gemm/gemm_hopper_store.cuh"
#include "kernels/gemm/gemm_hopper_swapped_store.cuh"

#if defined(GRAFT_HOPPER)
#include "kernels/common/cuda_wgmma.cuh"
#endif

namespace graft {

#if defined(GRAFT_HOPPER)

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

  // Loads groups of 64 columns of y. Each block of a cluster brings its share to all blocks.
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

  // Run() with a delta. It has no more of W on its way than keeps memory busy. Else LoRA's reads
  // would queue behind W, and its chain of dependent reads would outlast the product. No stage gets
  // full before x is there, so the clock tells what must have come.
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
      StoreShared16(target + local * 128 + ((piece ^ (local % 8)) * 16),
                    {words[0], words[1], words[2], words[3]});
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
      if constexpr (Shape::kLora && Shape::kTransposed) {
        if (args.rounded != nullptr) {
          return GemmActivator<Shape>{args, ring.staging}.StoreRounded(walk.column_tile, row, sum);
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
