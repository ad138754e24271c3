// The tables of LoRA's kernels, and their grids from what the host knows: upper bounds of rows,
// segments and ranks. The choice never changes a bit of a result that is not subnormal: adding in
// the L2 cache makes zeros of those.
#include <algorithm>
#include <numeric>

#include "kernels/gated_activation/gated_activation.h"
#include "kernels/kernel_list.h"
#include "kernels/lora/lora_block.cuh"
#include "kernels/lora/lora_launch.cuh"

namespace graft {
namespace lora {
namespace {

// Shared memory for the stages of all blocks of a multiprocessor together, 190 of an H100's 228 KiB
// and as large a part of other cards'. It is more than enough to keep the multiprocessor's share of
// the memory busy, and leaves room for the kernels before and after.
int32_t SharedBytesWanted() { return CurrentTraits().shared_bytes_of_multiprocessor / 6 * 5; }

// The blocks per multiprocessor that a launch is spread over. There are more where some blocks will
// find no rows, because segments differ in length.
constexpr int64_t kBlocksWanted = 2;
constexpr int64_t kBlocksWantedUneven = 6;
// Above this rank the sums of many rows take too much shared memory.
constexpr int64_t kRankOfWide = 64;
// The L2 cache adds so many elements of y in a microsecond or two.
constexpr int64_t kAddInL2Max = 1 << 20;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// An upper bound of the rows that have an adapter.
int32_t NumRows(const LoraArgs& args) {
  return args.segment_rows > 0 ? args.segment_rows : args.num_rows;
}

// Whether there are many rows of few adapters. Then the bytes of y and x are what takes the time.
bool IsPrefill(const LoraArgs& args) {
  const int32_t num_rows = NumRows(args);
  return num_rows >= 256 && num_rows >= 16 * args.num_segments && args.h_stride <= kRankOfWide;
}

int32_t RowSplits(const LoraArgs& args, int64_t blocks, int32_t rows_of_pass) {
  const int64_t passes = CeilDiv(NumRows(args), rows_of_pass);
  const int64_t passes_each = args.segment_rows_each > 0
                                  ? std::min(passes, CeilDiv(args.segment_rows_each, rows_of_pass))
                                  : passes;
  const int64_t spread = NumRows(args) > args.num_segments ? kBlocksWantedUneven : kBlocksWanted;
  const int64_t wanted =
      std::max(spread * NumMultiprocessors() / blocks, CeilDiv(passes, args.num_segments));
  return static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, passes_each));
}

// kNarrow, where all blocks find room at once. Blocks of a single tile of ranks have so little to
// do that they must also leave room for the next kernel's. blocks_of_pass: the narrow blocks that
// share up to kTileRows rows of a segment.
int ColumnsOfBlock(const LoraArgs& args, int64_t blocks_of_pass, int32_t row_splits) {
  const int64_t passes_launched = int64_t{args.num_segments} * row_splits;
  if (blocks_of_pass * passes_launched > 4 * NumMultiprocessors()) return kChunk;
  if (RankTiles(args.h_stride) > 1) return kNarrow;
  // The most passes that can have rows, however the segments divide them.
  const int64_t passes_max =
      args.num_segments + std::max(0, NumRows(args) - args.num_segments) / kTileRows;
  const int64_t with_rows = blocks_of_pass * std::min(passes_launched, passes_max);
  return with_rows <= 2 * NumMultiprocessors() ? kNarrow : kChunk;
}

// The number of stages: as many as a block can use, and as shared memory has room for in all blocks
// that will run. It is two where a block can hold two, so that one is filled while the other is
// read.
template <typename SharedBytes>
int32_t Depth(int64_t stages, int64_t blocks, const SharedBytes& shared_bytes) {
  const int64_t blocks_of_one = CeilDiv(blocks, NumMultiprocessors());
  const int64_t stages_max = std::min<int64_t>(stages, kDepthMax);
  const auto fits = [&](int32_t depth) { return shared_bytes(depth) <= SharedBytesMax(); };
  int32_t depth = stages_max >= 2 && fits(2) ? 2 : 1;
  while (depth < stages_max && fits(depth + 1) &&
         shared_bytes(depth + 1) * blocks_of_one <= SharedBytesWanted()) {
    ++depth;
  }
  return depth;
}

void LaunchShrinkFor(KernelArgs& args, const LaunchOptions& options, Launch& launch) {
  const LoraArgs& lora = args.lora;
  const bool wide = options.wide >= 0 ? options.wide != 0 : IsPrefill(lora);
  const int64_t slices = wide ? 1 : lora.num_slices;
  const int64_t blocks = int64_t{kLoraSplits} * lora.num_segments * slices;
  const int64_t groups = CeilDiv(CeilDiv(lora.k, kGroup), kLoraSplits);
  const int64_t stages = std::max<int64_t>(1, CeilDiv(groups, kChunkGroups)) *
                         std::max(1, RankTiles(lora.h_stride)) * (lora.num_slices / slices);
  const int rows_of_pass = wide ? RowsOfWideShrink(lora.h_stride, SharedBytesMax()) : kTileRows;
  args.row_splits =
      options.row_splits > 0 ? options.row_splits : RowSplits(lora, blocks, rows_of_pass);
  const auto shared_bytes = [&](int depth) {
    return wide ? WideShrinkSharedBytes(depth, lora.h_stride, rows_of_pass)
                : ShrinkSharedBytes(depth, lora.h_stride);
  };
  args.depth =
      options.depth > 0 ? options.depth : Depth(stages, blocks * args.row_splits, shared_bytes);
  launch.grid = GridOf(kLoraSplits, lora.num_segments, slices * args.row_splits);
  launch.shared_bytes = shared_bytes(args.depth);
  if (wide) return LaunchWideShrink(args, launch, rows_of_pass);
  LaunchShrink(args, launch);
}

void LaunchExpandFor(KernelArgs& args, const LaunchOptions& options, Launch& launch) {
  const LoraArgs& lora = args.lora;
  const int64_t n_max = *std::max_element(lora.slice_n, lora.slice_n + lora.num_slices);
  const int64_t n_total = std::accumulate(lora.slice_n, lora.slice_n + lora.num_slices, int64_t{0});
  const auto n_blocks = [&](int columns) { return std::max<int64_t>(1, CeilDiv(n_max, columns)); };
  const int64_t matrices = int64_t{lora.num_segments} * lora.num_slices;
  args.add_in_l2 = options.add_in_l2 >= 0 ? options.add_in_l2 != 0
                                          : CurrentTraits().overlaps_launches &&
                                                NumRows(lora) * n_total <= kAddInL2Max;
  args.row_splits = options.row_splits > 0
                        ? options.row_splits
                        : RowSplits(lora, n_blocks(kChunk) * matrices, kTileRows);
  const int columns = ColumnsOfBlock(lora, n_blocks(kNarrow) * lora.num_slices, args.row_splits);
  const auto shared_bytes = [&](int depth) {
    return ExpandSharedBytes(depth, lora.h_stride, columns);
  };
  args.depth = options.depth > 0
                   ? options.depth
                   : Depth(std::max(1, RankTiles(lora.h_stride)),
                           n_blocks(columns) * matrices * args.row_splits, shared_bytes);
  launch.grid = GridOf(n_blocks(columns), lora.num_segments, lora.num_slices * args.row_splits);
  launch.shared_bytes = shared_bytes(args.depth);
  LaunchExpand(args, launch, columns, IsPrefill(lora));
}

// lora.activated: a block has the same columns of gate and up.
void LaunchExpandActivateFor(KernelArgs& args, Launch& launch) {
  const LoraArgs& lora = args.lora;
  const int64_t blocks = CeilDiv(lora.slice_n[0], kChunk) * lora.num_segments;
  args.row_splits = RowSplits(lora, blocks, kTileRows);
  const auto shared_bytes = [&](int depth) {
    return ExpandActivateSharedBytes(depth, lora.h_stride);
  };
  args.depth =
      Depth(2 * std::max(1, RankTiles(lora.h_stride)), blocks * args.row_splits, shared_bytes);
  launch.grid = GridOf(CeilDiv(lora.slice_n[0], kChunk), lora.num_segments, args.row_splits);
  launch.shared_bytes = shared_bytes(args.depth);
  LaunchExpandActivate(args, launch);
}

bool IsOnBorder(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

}  // namespace

bool AllowsVectors(const LoraArgs& args) {
  bool allows = IsOnBorder(args.x) && args.x_stride % 8 == 0 && args.k % 8 == 0 &&
                IsOnBorder(args.y) && args.y_stride % 4 == 0;
  for (int32_t s = 0; s < args.num_slices; ++s) {
    allows = allows && args.slice_n[s] % 8 == 0 && args.slice_begin[s] % 4 == 0;
  }
  return allows;
}

// Whether one kernel does both, the expand and what args.activated asks for.
bool ActivatesItself(const LoraArgs& args) {
  return args.activated != nullptr && args.num_segments > 0 && args.num_rows > 0 &&
         args.dtype != DType::kF32 && AllowsVectors(args) && IsOnBorder(args.activated);
}

void LaunchLora(Part part, const LoraArgs& args, const LaunchOptions& options, Stream& stream) {
  if (args.num_segments == 0 || args.num_rows == 0) return;
  KernelArgs kernel_args{.lora = args, .vectors = AllowsVectors(args)};
  Launch launch{.overlap = options.overlap, .stream = CudaStreamOf(stream)};
  if (part == Part::kShrink) return LaunchShrinkFor(kernel_args, options, launch);
  LaunchExpandFor(kernel_args, options, launch);
}

namespace {

bool IsOfHalves(const LoraArgs& args) { return args.dtype != DType::kF32; }

template <Part kPart>
void LaunchTensorCores(const LoraArgs& args, Stream& stream) {
  LaunchLora(kPart, args, {}, stream);
}
template <Part kPart>
void LaunchPlain(const LoraArgs& args, Stream& stream) {
  LaunchLoraF32(kPart, args, stream);
}
void LaunchActivating(const LoraArgs& args, Stream& stream) {
  KernelArgs kernel_args{.lora = args, .vectors = true};
  Launch launch{.stream = CudaStreamOf(stream)};
  LaunchExpandActivateFor(kernel_args, launch);
}

constexpr KernelRow<LoraArgs> kShrinkKernels[] = {
    {"tensor-cores", "bf16, fp16", {}, IsOfHalves, LaunchTensorCores<Part::kShrink>},
    {"plain", "fp32", {}, nullptr, LaunchPlain<Part::kShrink>}};

struct ExpandKernel : KernelRow<LoraArgs> {
  bool activates = false;  // args.activated, too
};
constexpr ExpandKernel kExpandKernels[] = {
    {{"activating",
      "bf16, fp16, beside an activation; rows on 16 bytes",
      {},
      ActivatesItself,
      LaunchActivating},
     /*activates=*/true},
    {{"tensor-cores", "bf16, fp16", {}, IsOfHalves, LaunchTensorCores<Part::kExpand>}},
    {{"plain", "fp32", {}, nullptr, LaunchPlain<Part::kExpand>}}};

}  // namespace
}  // namespace lora

void TellLoraKernels(KernelList* list) {
  TellKernels("lora shrink", lora::kShrinkKernels, list);
  TellKernels("lora expand", lora::kExpandKernels, list);
}

void LoraShrinkCuda(const LoraArgs& args, Stream& stream) {
  if (args.num_segments == 0 || args.num_rows == 0) return;
  LaunchLedger& ledger = LaunchLedger::OfThread();
  if (args.follows_product) ledger.ExpectProductBefore(stream.cuda_stream, args.x);
  ChooseKernel(lora::kShrinkKernels, args, TraitsOf(stream.device)).launch(args, stream);
  if (args.precedes_product) ledger.AwaitProduct(stream.cuda_stream, args.x);
}

void LoraExpandCuda(const LoraArgs& args, Stream& stream) {
  const lora::ExpandKernel& kernel =
      ChooseKernel(lora::kExpandKernels, args, TraitsOf(stream.device));
  kernel.launch(args, stream);
  if (args.activated == nullptr || kernel.activates) return;
  GatedActivation({.gate_up = args.y,
                   .out = args.activated,
                   .out_dtype = args.dtype,
                   .num_tokens = args.num_rows,
                   .n = args.slice_n[0]},
                  stream);
}

}  // namespace graft
