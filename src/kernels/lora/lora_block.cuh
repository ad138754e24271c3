// What the LoRA kernels of bf16 and fp16 share. A block streams pieces of rows of A or B through a
// ring of stages in shared memory; a stage is kTileRanks ranks of up to kChunk elements. Two warps,
// the feeders, find the rows and ask for whole pieces at once. They never look at x, h or y, so
// they begin while an earlier kernel still runs. The other warps multiply.
//
// The tensor cores take k and the ranks in any order, as long as both operands agree on it. The
// order here is chosen so that 16 bytes, as they lie in memory, are two operands of a lane, and no
// element has to move to another lane.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/common/cuda_barrier.cuh"
#include "kernels/common/cuda_cache.cuh"
#include "kernels/common/cuda_copy.cuh"
#include "kernels/common/cuda_launch.cuh"
#include "kernels/common/cuda_mma.cuh"
#include "kernels/common/cuda_shared.cuh"
#include "kernels/lora/lora.h"
#include "kernels/lora/lora_launch.cuh"
#include "tensor/cuda_check.h"

namespace graft::lora {

inline constexpr int kWarps = 4;  // warps that multiply
inline constexpr int kFeeders = 2;
inline constexpr int kMultiplyThreads = kWarps * 32;
inline constexpr int kThreads = (kWarps + kFeeders) * 32;
inline constexpr int kTileRanks = 16;            // ranks of one tensor core operation
inline constexpr int kTileRows = kLoraTileRows;  // rows of x and y of one tensor core operation
inline constexpr int kChunk = 512;
inline constexpr int kNarrow = 256;  // columns of B^T for a block, where blocks are few
inline constexpr int kGroup = 64;    // elements of a chunk that a warp takes at a time
inline constexpr int kChunkGroups = kChunk / kGroup;
inline constexpr int kDepthMax = 8;

// Bytes between two rows of a stage. A warp reads 64 bytes of each of eight rows of A or x, with
// four lanes side by side; of B, 32 bytes of each of four rows, with two lanes. The extra bytes put
// its lanes in different banks.
inline constexpr int kRowBytesOfA = kChunk * 2 + 64;
__host__ __device__ constexpr int RowBytesOfB(int columns) { return columns * 2 + 32; }
inline constexpr int kRowBytesOfB = RowBytesOfB(kChunk);

__host__ __device__ constexpr int RankTiles(int64_t rank) {
  return static_cast<int>((rank + kTileRanks - 1) / kTileRanks);
}

template <bool kIsBf16>
using Half = std::conditional_t<kIsBf16, Bfloat16, Float16>;

// Waits until the phase of the given parity is over, on any card.
__device__ __forceinline__ void AwaitBarrier(uint32_t barrier, uint32_t parity) {
  while (!BarrierTryWait(barrier, parity)) {
  }
}

// The barrier of the multiplying threads of one team; each team of a block has its own.
__device__ __forceinline__ uint32_t TeamBarrier() { return 1 + threadIdx.y; }

// Up to 8 elements from p, which need not be aligned; zeros after `count`.
inline __device__ __noinline__ uint4 LoadElements(const uint16_t* p, int count) {
  uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t bits = i < count ? p[i] : 0;
    words[i / 2] |= bits << (i % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

// 16 bytes of a stage. If !present the stage may hold anything there, and the result is zeros.
__device__ __forceinline__ uint4 LoadStage(uint32_t address, bool present) {
  const uint4 v = LoadShared16(address);
  return {present ? v.x : 0, present ? v.y : 0, present ? v.z : 0, present ? v.w : 0};
}

// Brings `elements` of each of up to kTileRows rows of x or y into the L2 cache, before any kernel
// may read them. The rows must allow vectors. Called by the feeders.
template <typename T>
__device__ __forceinline__ void PrefetchRows(const T* first, int64_t stride, int rows,
                                             int elements) {
  const int row = static_cast<int>(threadIdx.x) - kMultiplyThreads;
  if (row < min(rows, kTileRows) && elements > 0) {
    PrefetchBulk(first + row * stride, elements * static_cast<int>(sizeof(T)));
  }
  __syncwarp();
}

// For rows that are not on 16-byte borders, and for cards without the copy engine: a warp copies
// the rows and waits.
inline __device__ __noinline__ void CopyRows(uint32_t to, int row_bytes, const uint16_t* from,
                                             int rows, int elements, bool vectors) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = 0; row < rows; ++row) {
    const auto* p =
        reinterpret_cast<const uint16_t*>(__shfl_sync(~0u, reinterpret_cast<uintptr_t>(from), row));
    for (int i = lane * 8; i < elements; i += 256) {
      const uint32_t target = to + row * row_bytes + i * 2;
      if (vectors) {
        CopyLineAsync(target, p + i);
      } else {
        StoreShared16(target, LoadElements(p + i, elements - i));
      }
    }
  }
  WaitForAllCopies();
}

// A warp brings `elements` from each of up to 32 rows: lane r's row, which begins at its `from`,
// goes to row r of the stage at `to`. Each lane arrives at `barrier`, which passes once the rows
// are there.
__device__ __forceinline__ void FetchRows(uint32_t to, int row_bytes, const uint16_t* from,
                                          int rows, int elements, bool vectors, uint32_t barrier,
                                          uint64_t cache) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool on_border = lane >= rows || reinterpret_cast<uintptr_t>(from) % 16 == 0;
  vectors = __all_sync(~0u, on_border) && vectors;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (vectors) {
    const int bytes = lane < rows ? elements * 2 : 0;
    if (bytes > 0) CopyBulk(to + lane * row_bytes, from, bytes, barrier, cache);
    BarrierExpect(barrier, bytes);  // after the copy, or racecheck reports the lane
    return;
  }
#endif
  CopyRows(to, row_bytes, from, rows, elements, vectors);
  BarrierArrive(barrier);
}

// The stages. Each has a barrier that passes when the stage is full, and one that passes when it is
// free. Every lane arrives for what it copied or read itself: compute-sanitizer's racecheck cannot
// follow a lane that arrives for its whole warp after __syncwarp.
class Ring {
 public:
  static constexpr int kBarrierBytes = 2 * kDepthMax * 8;

  __device__ __forceinline__ Ring(char* stages, char* barriers, int depth, int row_bytes)
      : Ring(stages, barriers, depth, row_bytes, kTileRanks * row_bytes) {}
  __device__ __forceinline__ Ring(char* stages, char* barriers, int depth, int row_bytes,
                                  int stage_bytes)
      : stages_(SharedAddress(stages)),
        barriers_(SharedAddress(barriers)),
        depth_(depth),
        stage_bytes_(stage_bytes),
        row_bytes_(row_bytes) {}

  // Sets the row size of the stages from here on.
  __device__ __forceinline__ void SetRowBytes(int row_bytes) { row_bytes_ = row_bytes; }

  // Called by one thread; the block must synchronise afterwards.
  __device__ __forceinline__ void Init() const {
    for (int i = 0; i < depth_; ++i) {
      BarrierInit(Full(i), kFeeders * 32);
      BarrierInit(Free(i), kMultiplyThreads);
    }
  }

  // Called by all feeders for each stage in turn. Brings the ranks from rank_begin on; lane r's row
  // begins at `from`. Rows that only few blocks read should leave the cache first (`cache`).
  __device__ __forceinline__ void Feed(const uint16_t* from, int ranks, int elements, bool vectors,
                                       uint64_t cache = kCacheFirstOut) {
    constexpr int kRanks = kTileRanks / kFeeders;
    if (round_ > 0) AwaitBarrier(Free(slot_), (round_ - 1) & 1);
    const int feeder = static_cast<int>(threadIdx.x) / 32 - kWarps;
    const int rows = min(kRanks, max(0, ranks - feeder * kRanks));
    FetchRows(stages_ + slot_ * stage_bytes_ + feeder * kRanks * row_bytes_, row_bytes_, from, rows,
              elements, vectors, Full(slot_), cache);
    Next();
  }

  // Called by the multiplying warps for each stage in turn. Waits until the stage is full and
  // returns its address.
  __device__ __forceinline__ uint32_t Wait() const {
    AwaitBarrier(Full(slot_), round_ & 1);
    return stages_ + slot_ * stage_bytes_;
  }
  __device__ __forceinline__ void Release() {
    __syncwarp();  // not needed for order, but the expand is slower without it
    BarrierArrive(Free(slot_));
    Next();
  }

 private:
  __device__ __forceinline__ uint32_t Full(int slot) const { return barriers_ + slot * 8; }
  __device__ __forceinline__ uint32_t Free(int slot) const {
    return barriers_ + (kDepthMax + slot) * 8;
  }
  __device__ __forceinline__ void Next() {
    if (++slot_ == depth_) {
      slot_ = 0;
      ++round_;
    }
  }

  const uint32_t stages_, barriers_;
  const int depth_, stage_bytes_;
  int row_bytes_;
  int slot_ = 0;
  int round_ = 0;
};

// The addresses of a matrix's rows, in shared memory. All are looked up at once, because a look-up
// costs a memory latency. Each feeder holds those of its own half of a tile.
class RowTable {
 public:
  static constexpr int Bytes(int64_t rank_max) { return RankTiles(rank_max) * kTileRanks * 8; }

  __device__ __forceinline__ RowTable(char* shared, const void* const* rows, int rank)
      : rows_(reinterpret_cast<const uint16_t**>(shared)) {
    const int thread = static_cast<int>(threadIdx.x) - kMultiplyThreads;
    mine_ = thread / 32 * kRanks + thread % kRanks;
    __syncwarp();  // all lanes have read the table before this one
#pragma unroll
    for (int i = 0; i < kLoraRankMax / (kTiles * kTileRanks); ++i) {
      const int row = mine_ + (i * kTiles + thread % 32 / kRanks) * kTileRanks;
      if (row < rank) rows_[row] = static_cast<const uint16_t*>(rows[row]);
    }
    __syncwarp();
  }

  // This lane's row in the tile. The address is undefined past the matrix's ranks.
  __device__ __forceinline__ const uint16_t* Row(int tile) const {
    return rows_[tile * kTileRanks + mine_];
  }

 private:
  static constexpr int kRanks = kTileRanks / kFeeders;  // ranks of a tile for one feeder
  static constexpr int kTiles = 32 / kRanks;            // tiles per look-up

  const uint16_t** const rows_;
  int mine_;
};

// One part of k, and the chunks in which it is read.
struct KPart {
  int begin_group = 0;
  int groups = 0;
  int k = 0;

  __device__ __forceinline__ KPart(int64_t k_of_all, int part) : k(static_cast<int>(k_of_all)) {
    const int all = (k + kGroup - 1) / kGroup;
    begin_group = all * part / kLoraSplits;
    groups = all * (part + 1) / kLoraSplits - begin_group;
  }
  // At least one, so that an empty part stores its zero sums too.
  __device__ __forceinline__ int chunks() const {
    return max(1, (groups + kChunkGroups - 1) / kChunkGroups);
  }
  __device__ __forceinline__ int GroupsOf(int chunk) const {
    return min(kChunkGroups, groups - chunk * kChunkGroups);
  }
  __device__ __forceinline__ int BeginOf(int chunk) const {
    return (begin_group + chunk * kChunkGroups) * kGroup;
  }
  __device__ __forceinline__ int ElementsOf(int chunk) const {
    return max(0, min(k - BeginOf(chunk), GroupsOf(chunk) * kGroup));
  }
};

// The rows of a block: up to rows_of_pass at a time, args.row_splits * rows_of_pass apart.
struct BlockRows {
  int begin = 0;
  int end = 0;
  int adapter_slot = 0;

  __device__ __forceinline__ BlockRows(const LoraArgs& lora, int row_split, int rows_of_pass) {
    const LoraSegment segment = lora.segments[blockIdx.y];
    begin = segment.row_begin + row_split * rows_of_pass;
    end = segment.row_end;
    adapter_slot = segment.adapter_slot;
  }
};

// A kernel that waits for this one relies on this one having waited for all earlier kernels. So one
// block waits whether or not it has rows; others without rows leave at once, and make room.
__device__ __forceinline__ bool IsFirstBlock() { return blockIdx.x + blockIdx.y + blockIdx.z == 0; }

__device__ __forceinline__ const LoraMatrix& MatrixOf(const LoraArgs& lora, int adapter_slot,
                                                      int slice) {
  return lora.matrices[adapter_slot * lora.matrices_stride + slice];
}

__device__ __forceinline__ float* HOf(const LoraArgs& lora, int split, int slice, int row) {
  return lora.h +
         ((int64_t{split} * lora.num_slices + slice) * lora.num_rows + row) * lora.h_stride;
}

// Blocks per multiprocessor that registers are to suffice for: `tuned` in Hopper's own code, where
// a little local memory was found to pay, and elsewhere as many as leave the compiler registers for
// everything, for all of these cards.
constexpr int BlocksBound(int tuned, [[maybe_unused]] int elsewhere) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  return elsewhere;
#else
  return tuned;
#endif
}

// The most shared memory that a block may have on the current device.
inline int SharedBytesMax() { return CurrentTraits().shared_bytes_max; }

// The current device's multiprocessors, among which the work of a launch is divided.
inline int32_t NumMultiprocessors() { return CurrentTraits().num_multiprocessors; }

inline unsigned NumBlocks(const Launch& launch) {
  return launch.grid.x * launch.grid.y * launch.grid.z;
}

template <void (*kKernel)(KernelArgs)>
void LaunchOf(const KernelArgs& args, const Launch& launch) {
  CHECK_LE(launch.shared_bytes, SharedBytesMax());
  [[maybe_unused]] static const bool has_room = [] {
    CUDA_CHECK(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    SharedBytesMax()));
    return true;
  }();
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = launch.grid;
  config.blockDim = dim3(kThreads, launch.teams);
  config.dynamicSmemBytes =
      SharedBytesToLaunch(reinterpret_cast<const void*>(kKernel),
                          kThreads * static_cast<int>(launch.teams), launch.shared_bytes);
  config.stream = launch.stream;
  config.attrs = &overlap;
  config.numAttrs = launch.overlap && CurrentTraits().overlaps_launches ? 1 : 0;
  LaunchLedger::OfThread().Launched(launch.stream);
  CUDA_CHECK(cudaLaunchKernelEx(&config, kKernel, args));
}

}  // namespace graft::lora
