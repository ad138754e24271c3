// LoRA beside a GEMM's kernel, for the few rows of a decode step. This kernel is launched before
// the GEMM's and runs while the GEMM streams W: it does the shrink, then the expand into a buffer
// of its own, which the GEMM adds when it stores y. A block has a multiprocessor to itself, and
// three teams, each of which works like a block of LoraShrink and LoraExpand. So the GEMM and this
// kernel do not keep each other from beginning, and LoRA's latencies overlap with the GEMM's
// reading. The teams share out the work evenly whatever the mix of adapters. h passes from team to
// team through the second-level cache; each team writes the step's number to a word to say that its
// share of h is there. Teams may wait for each other, because all blocks of this kernel are running
// before any of the GEMM's may begin. Nothing waits for a later kernel.
//
// The bits are those of LoraShrink, Gemm and LoraExpand, called one after the other.
#include "kernels/lora/lora_beside.h"

#include <algorithm>

#include "kernels/common/cuda_words.cuh"
#include "kernels/lora/lora_expand.cuh"
#include "kernels/lora/lora_shrink.cuh"

namespace graft::lora {
namespace {

constexpr int kDepthOfTeam = 4;  // or fewer, where shared memory has no room
constexpr int kTeams = 3;        // in a block
// LoraBeside::words: the first word says that x is there. Then, on lines of the second-level cache
// of their own, each team has a word that says that its share of h is there.
constexpr int kFirstTeamWord = 32;
// There are no words for more blocks than this.
constexpr int kBlocksMax = 64;
static_assert(kFirstTeamWord + kBlocksMax * kTeams <= kLoraBesideWords);

__device__ __forceinline__ unsigned Team() { return blockIdx.x * kTeams + threadIdx.y; }
__device__ __forceinline__ unsigned NumTeams() { return gridDim.x * kTeams; }

// The rows of a launch, in groups of up to kTileRows rows that have the same adapter, or none.
struct RowGroups {
  int32_t count;
  int32_t slot[kLoraBesideRowsMax];  // -1: no adapter
  int32_t begin[kLoraBesideRowsMax + 1];
  // Per row; used only while the groups are being found.
  int32_t row_slot[kLoraBesideRowsMax];
  int32_t segment_begin[kLoraBesideRowsMax];

  // Called by all threads of the block; the first team does the work.
  __device__ void Find(const LoraArgs& lora) {
    const int i = static_cast<int>(threadIdx.x);
    const bool in_first_team = threadIdx.y == 0;
    LoraSegment segment;
    if (in_first_team && i < lora.num_segments) segment = lora.segments[i];
    if (in_first_team && i < kLoraBesideRowsMax) {
      row_slot[i] = -1;
      segment_begin[i] = 0;
    }
    __syncthreads();
    for (int row = segment.row_begin; row < segment.row_end; ++row) {
      row_slot[row] = segment.adapter_slot;
      segment_begin[row] = segment.row_begin;
    }
    __syncthreads();
    if (in_first_team && i < 32) {
      int found = 0;
      for (int first = 0; first < lora.num_rows; first += 32) {
        const int row = first + i;
        const bool begins = row < lora.num_rows && Begins(row);
        const uint32_t beginners = __ballot_sync(~0u, begins);
        const int at = found + __popc(beginners & ((1u << i) - 1));
        if (begins) {
          begin[at] = row;
          slot[at] = row_slot[row];
        }
        found += __popc(beginners);
      }
      if (i == 0) {
        begin[found] = lora.num_rows;
        count = found;
      }
    }
    __syncthreads();
  }

 private:
  __device__ bool Begins(int row) const {
    return row == 0 || row_slot[row] != row_slot[row - 1] ||
           segment_begin[row] != segment_begin[row - 1] ||
           (row - segment_begin[row]) % kTileRows == 0;
  }
};

constexpr int kGroupsBytes = (static_cast<int>(sizeof(RowGroups)) + 127) / 128 * 128;

// A team's items: consecutive ones of `count`.
struct ItemRange {
  int begin, end;
  __device__ explicit ItemRange(int count)
      : begin(static_cast<int>(int64_t{count} * Team() / NumTeams())),
        end(static_cast<int>(int64_t{count} * (Team() + 1) / NumTeams())) {}
};

// ---- Shrink: an item is a group of rows, a part of k and a slice; neighbours share x. ----

struct ShrinkItem {
  int group, part, slice;
  __device__ ShrinkItem(const LoraArgs& lora, int item)
      : group(item / (kLoraSplits * lora.num_slices)),
        part(item / lora.num_slices % kLoraSplits),
        slice(item % lora.num_slices) {}
};

__device__ __forceinline__ void FeedShrinkItems(const KernelArgs& args, const RowGroups& groups,
                                                char* table_bytes, Ring& ring) {
  const ItemRange range(groups.count * kLoraSplits * args.lora.num_slices);
#pragma unroll 1
  for (int i = range.begin; i < range.end; ++i) {
    const ShrinkItem item(args.lora, i);
    const int slot = groups.slot[item.group];
    if (slot < 0) continue;
    const LoraMatrix matrix = MatrixOf(args.lora, slot, item.slice);
    const RowTable table(table_bytes, matrix.a_rows, matrix.rank);
    FeedShrink(args, table, matrix.rank, KPart(args.lora.k, item.part), ring);
  }
}

// ---- Expand: an item is a group of rows and kChunk columns of a slice; neighbours share h. ----

struct ExpandItem {
  int group, slice = 0, column;
  __device__ ExpandItem(const LoraArgs& lora, int chunks_of_group, int item)
      : group(item / chunks_of_group) {
    int chunk = item - group * chunks_of_group;
    for (; chunk >= ChunksOf(lora, slice); ++slice) chunk -= ChunksOf(lora, slice);
    column = chunk * kChunk;
  }
  static __device__ int ChunksOf(const LoraArgs& lora, int slice) {
    return (static_cast<int>(lora.slice_n[slice]) + kChunk - 1) / kChunk;
  }
  static __device__ int ChunksOfGroup(const LoraArgs& lora) {
    int chunks = 0;
    for (int slice = 0; slice < lora.num_slices; ++slice) chunks += ChunksOf(lora, slice);
    return chunks;
  }
};

__device__ __forceinline__ void FeedExpandItems(const KernelArgs& args, const RowGroups& groups,
                                                int chunks_of_group, char* table_bytes,
                                                Ring& ring) {
  const ItemRange range(groups.count * chunks_of_group);
#pragma unroll 1
  for (int i = range.begin; i < range.end; ++i) {
    const ExpandItem item(args.lora, chunks_of_group, i);
    const int slot = groups.slot[item.group];
    if (slot < 0) continue;
    const LoraMatrix matrix = MatrixOf(args.lora, slot, item.slice);
    const RowTable table(table_bytes, matrix.b_rows, matrix.rank);
    FeedExpand(args, table, matrix.rank, item.column,
               min(kChunk, static_cast<int>(args.lora.slice_n[item.slice]) - item.column), ring);
  }
}

// Stores the product beside y, for the GEMM to add.
struct DeltaStore {
  static __device__ __forceinline__ float* Of(const LoraArgs& lora) { return lora.beside.delta; }
  static __device__ __forceinline__ void Put(const KernelArgs& args, float* to, int columns,
                                             const float (&delta)[8]) {
    if (args.vectors) {
      auto* const vectors = reinterpret_cast<float4*>(to);
      vectors[0] = {delta[0], delta[1], delta[2], delta[3]};
      vectors[1] = {delta[4], delta[5], delta[6], delta[7]};
      return;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (j < columns) to[j] = delta[j];
    }
  }
};

// Stores -0, which changes no sum that it is added to.
__device__ __forceinline__ void StoreNothing(const LoraArgs& lora, int row_begin, int row_end,
                                             int column, int columns) {
  for (int row = row_begin; row < row_end; ++row) {
    float* const delta = lora.beside.delta + row * lora.y_stride + column;
    for (int i = static_cast<int>(threadIdx.x); i < columns; i += kMultiplyThreads)
      delta[i] = -0.0f;
  }
}

template <bool kIsBf16>
class BesideTeam {
 public:
  __device__ __forceinline__ BesideTeam(const KernelArgs& args, const RowGroups& groups, Ring& ring,
                                        float* partials, float* h)
      : args_(args),
        lora_(args.lora),
        groups_(groups),
        ring_(ring),
        step_(*args.lora.beside.step),
        shrinker_(args, ring, partials),
        expander_(args, ring, h) {}

  __device__ __forceinline__ void Run() {
    const ItemRange shrinks(groups_.count * kLoraSplits * lora_.num_slices);
    const int chunks = ExpandItem::ChunksOfGroup(lora_);
    const ItemRange expands(groups_.count * chunks);
    LoraMatrix matrix = ShrinkMatrixAt(shrinks, shrinks.begin);
    const LoraMatrix expand_matrix = ExpandMatrixAt(expands, chunks, expands.begin);
    WaitForPrevious();
    if (Team() == 0 && threadIdx.x == 0) SayWord(lora_.beside.words, step_);
    Shrink(shrinks, matrix);
    SyncThreads<kMultiplyThreads>(TeamBarrier());
    if (threadIdx.x == 0) SayWord(TeamWords() + Team(), step_);
    matrix = expand_matrix;
    ring_.SetRowBytes(kRowBytesOfB);
    WaitForTeams();
    int h_of = -1;
#pragma unroll 1
    for (int i = expands.begin; i < expands.end; ++i) {
      const LoraMatrix next = ExpandMatrixAt(expands, chunks, i + 1);
      Expand(ExpandItem(lora_, chunks, i), matrix, h_of);
      matrix = next;
    }
  }

 private:
  // The reads for each stage are under way while the stage before it is multiplied.
  __device__ __forceinline__ void Shrink(const ItemRange& range, LoraMatrix matrix) {
    typename Shrinker<kIsBf16, true>::X x;
    LoadX(range, range.begin, 0, x);
#pragma unroll 1
    for (int i = range.begin; i < range.end; ++i) {
      const LoraMatrix next = ShrinkMatrixAt(range, i + 1);
      const ShrinkItem item(lora_, i);
      const KPart part(lora_.k, item.part);
      const int chunks = part.chunks();
      const int row = groups_.begin[item.group];
      const int row_end = groups_.begin[item.group + 1];
      int tile_begin = 0;
      int chunk = 0;
      float total = 0.0f;
#pragma unroll 1
      while (tile_begin < matrix.rank) {
        const bool last_chunk = chunk + 1 == chunks;
        const bool last = last_chunk && tile_begin + kTileRanks >= matrix.rank;
        typename Shrinker<kIsBf16, true>::X next_x;
        LoadX(range, i + last, last_chunk ? 0 : chunk + 1, next_x);
        shrinker_.AddChunk(part, chunk, row_end - row, x, total);
#pragma unroll
        for (int j = 0; j < kGroupsOfWarp; ++j) x[j] = next_x[j];
        ++chunk;
        if (!last_chunk) continue;
        shrinker_.PutH(row, row_end, item.part, item.slice, tile_begin, matrix.rank, total);
        total = 0.0f;
        chunk = 0;
        tile_begin += kTileRanks;
      }
      if (matrix.rank == 0) LoadX(range, i + 1, 0, x);
      matrix = next;
    }
  }

  __device__ __forceinline__ void LoadX(const ItemRange& range, int i, int chunk,
                                        typename Shrinker<kIsBf16, true>::X& x) const {
    if (i >= range.end) return;
    const ShrinkItem item(lora_, i);
    shrinker_.LoadChunkOfX(groups_.begin[item.group], groups_.begin[item.group + 1],
                           KPart(lora_.k, item.part), chunk, x);
  }

  __device__ LoraMatrix MatrixOfGroup(int group, int slice) const {
    const int slot = groups_.slot[group];
    return slot < 0 ? LoraMatrix{} : MatrixOf(lora_, slot, slice);
  }
  __device__ LoraMatrix ShrinkMatrixAt(const ItemRange& range, int i) const {
    if (i >= range.end) return {};
    const ShrinkItem item(lora_, i);
    return MatrixOfGroup(item.group, item.slice);
  }
  __device__ LoraMatrix ExpandMatrixAt(const ItemRange& range, int chunks, int i) const {
    if (i >= range.end) return {};
    const ExpandItem item(lora_, chunks, i);
    return MatrixOfGroup(item.group, item.slice);
  }

  __device__ uint32_t* TeamWords() const { return lora_.beside.words + kFirstTeamWord; }

  // Waits until every team has written its share of h.
  __device__ __forceinline__ void WaitForTeams() const {
    if (threadIdx.x < 32) {
      for (bool all = false; !all;) {
        all = true;
        for (unsigned i = threadIdx.x; i < NumTeams(); i += 32) {
          all = HearWord(TeamWords() + i) == step_ && all;
        }
        all = __all_sync(~0u, all) != 0;
      }
    }
    SyncThreads<kMultiplyThreads>(TeamBarrier());
  }

  __device__ __forceinline__ void Expand(const ExpandItem& item, const LoraMatrix& matrix,
                                         int& h_of) {
    const int row_begin = groups_.begin[item.group];
    const int row_end = groups_.begin[item.group + 1];
    const int columns = min(kChunk, static_cast<int>(lora_.slice_n[item.slice]) - item.column);
    if (matrix.rank == 0) {
      StoreNothing(lora_, row_begin, row_end,
                   static_cast<int>(lora_.slice_begin[item.slice]) + item.column, columns);
      return;
    }
    const int h_wanted = item.group * kLoraSlicesMax + item.slice;
    if (h_of != h_wanted) {
      SyncThreads<kMultiplyThreads>(TeamBarrier());
      expander_.SumH(row_begin, row_end, item.slice, matrix);
      SyncThreads<kMultiplyThreads>(TeamBarrier());
      h_of = h_wanted;
    }
    expander_.Pass(row_begin, row_end, item.slice, matrix.rank, item.column, item.column + columns);
  }

  const KernelArgs& args_;
  const LoraArgs& lora_;
  const RowGroups& groups_;
  Ring& ring_;
  const uint32_t step_;
  Shrinker<kIsBf16, true> shrinker_;
  Expander<kIsBf16, DeltaStore> expander_;
};

constexpr int kStageBytes =
    kTileRanks * (kRowBytesOfA > kRowBytesOfB ? kRowBytesOfA : kRowBytesOfB);

constexpr int HTileBytes(int64_t rank_max) { return kTileRows * (HStride(rank_max) + 2) * 4; }

template <bool kIsBf16>
__global__ void __launch_bounds__(kThreads* kTeams, 1)
    BesideKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  LetNextStart();
  auto& groups = *reinterpret_cast<RowGroups*>(shared);
  char* const stages = shared + kGroupsBytes + threadIdx.y * args.team_bytes;
  char* const barriers = stages + args.depth * kStageBytes;
  char* const table = barriers + Ring::kBarrierBytes;
  auto* const partials = reinterpret_cast<float*>(table + RowTable::Bytes(args.lora.h_stride));
  float* const h = partials + 2 * kPartialFloats;
  Ring ring(stages, barriers, args.depth, kRowBytesOfA, kStageBytes);
  if (threadIdx.x == 0) ring.Init();
  groups.Find(args.lora);
  if (threadIdx.x >= kMultiplyThreads) {
    FeedShrinkItems(args, groups, table, ring);
    ring.SetRowBytes(kRowBytesOfB);
    FeedExpandItems(args, groups, ExpandItem::ChunksOfGroup(args.lora), table, ring);
    return;
  }
  BesideTeam<kIsBf16>(args, groups, ring, partials, h).Run();
}

int TeamBytes(int depth, const LoraArgs& lora) {
  const int bytes = depth * kStageBytes + Ring::kBarrierBytes + RowTable::Bytes(lora.h_stride) +
                    2 * kPartialFloats * 4 + HTileBytes(lora.h_stride);
  return (bytes + 127) / 128 * 128;
}

}  // namespace

void LaunchBeside(const LoraArgs& lora, int num_blocks, Stream& stream) {
  CHECK(lora.num_rows <= kLoraBesideRowsMax && lora.num_segments <= kLoraBesideRowsMax);
  int depth = kDepthOfTeam;
  while (kGroupsBytes + kTeams * TeamBytes(depth, lora) > SharedBytesMax()) --depth;
  const KernelArgs args{.lora = lora,
                        .depth = depth,
                        .team_bytes = TeamBytes(depth, lora),
                        .vectors = AllowsVectors(lora)};
  // Teams wait for each other, so all blocks must be able to run at once, even when two streams do
  // this.
  const int blocks = std::min({num_blocks, kBlocksMax, NumMultiprocessors() / 2 - 2});
  const Launch launch{.grid = dim3(static_cast<unsigned>(blocks)),
                      .teams = kTeams,
                      .shared_bytes = kGroupsBytes + kTeams * args.team_bytes,
                      .stream = CudaStreamOf(stream)};
  if (lora.dtype == DType::kBF16) {
    LaunchOf<BesideKernel<true>>(args, launch);
  } else {
    LaunchOf<BesideKernel<false>>(args, launch);
  }
}

}  // namespace graft::lora
