// The choice of a LoRA kernel and its grid from what the host knows: upper bounds of rows, segments
// and ranks. None of the choices changes a bit of a result.
#include <algorithm>
#include <numeric>

#include "kernels/common/cuda_launch.cuh"
#include "kernels/lora/lora_block.cuh"
#include "kernels/lora/lora_launch.cuh"
#include "tensor/cuda_check.h"

namespace graft {
namespace lora {
namespace {

// Small models and pages off 16-byte borders only; out of the way of the others' registers.
template <Part kPart>
__device__ __noinline__ void RunOffBorders(const KernelArgs& args, char* shared) {
  LoraBlock<kPart, 2, 1, false> block(args, shared);
  block.Find();
  block.Run();
}

// kBlocks: per multiprocessor. Three have 80 registers each and keep some values in local memory.
template <Part kPart, int kDepth, int kRowTiles, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    LoraKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  LoraBlock<kPart, kDepth, kRowTiles, true> block(args, shared);
  const Found found = block.Find();
  if (found == Found::kWork) {
    block.Run();
  } else if (found == Found::kOffBorders) {
    RunOffBorders<kPart>(args, shared);
  } else {
    WaitForPrevious();  // so that who waits for this kernel has waited for those before it
    LetNextStart();
  }
}

constexpr int64_t kSharedBytesMax = 227 << 10;
// Clusters of eight that two blocks per multiprocessor hold, less some for uneven groups of these.
constexpr int32_t kClustersOfTwoBlocks = 28;
// Above, sums of 16 rows take too much shared memory.
constexpr int64_t kRankOfWidePass = 64;
// Blocks that a launch is spread over: two per multiprocessor of a large card; more where some of
// them will find no rows, because segments differ in length.
constexpr int32_t kBlocksWanted = 264;
constexpr int32_t kBlocksWantedUneven = 768;
// From here on two launches of small blocks go through the card faster than clusters of eight.
constexpr int64_t kBlocksOfPair = 640;
// So many elements of y cost the L2 cache a microsecond or two to add.
constexpr int64_t kAddInL2Max = 320 << 10;

bool IsOnBorder(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

bool AllowsVectors(const LoraArgs& args) {
  bool allows = IsOnBorder(args.x) && args.x_stride % 8 == 0 && args.k % 8 == 0 &&
                IsOnBorder(args.y) && args.y_stride % 4 == 0;
  for (int32_t s = 0; s < args.num_slices; ++s) {
    allows = allows && args.slice_n[s] % 8 == 0 && args.slice_begin[s] % 4 == 0;
  }
  return allows;
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <Part kPart, int kDepth, int kRowTiles, int kBlocks>
void Launch(KernelArgs& args, dim3 grid, bool overlap, Stream& stream) {
  const auto kernel = LoraKernel<kPart, kDepth, kRowTiles, kBlocks>;
  args.layout = LayoutFor(kDepth, kRowTiles, SharesOf(kPart), args.lora.h_stride);
  CHECK_LE(args.layout.bytes, kSharedBytesMax);
  [[maybe_unused]] static const bool has_room = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(kSharedBytesMax)));
    return true;
  }();
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = args.layout.bytes;
  config.stream = CudaStreamOf(stream);
  config.attrs = attributes;
  if (overlap && CanOverlapLaunches()) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (kPart == Part::kBoth) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {kLoraSplits, 1, 1};
  }
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, args));
}

// Whether two blocks per multiprocessor would take the clusters in more than one round.
bool NeedsManyBlocks(const LoraArgs& args) {
  return args.num_segments * args.num_slices > kClustersOfTwoBlocks && args.h_stride <= 64;
}

template <Part kPart>
void LaunchPart(KernelArgs& args, dim3 grid, int32_t depth, int32_t row_tiles, bool overlap,
                Stream& stream) {
  constexpr int kBlocksOfWide = kPart == Part::kExpand ? 3 : 2;
  if (row_tiles > 1) return Launch<kPart, 2, 2, kBlocksOfWide>(args, grid, overlap, stream);
  if (depth > 2) return Launch<kPart, 4, 1, 2>(args, grid, overlap, stream);
  if (kPart == Part::kBoth && !NeedsManyBlocks(args.lora)) {
    return Launch<kPart, 2, 1, 2>(args, grid, overlap, stream);
  }
  Launch<kPart, 2, 1, 3>(args, grid, overlap, stream);
}

// Many rows of few adapters: y and x are what moves.
bool IsPrefill(const LoraArgs& args) {
  return args.num_rows >= 256 && args.num_rows >= 16 * args.num_segments &&
         args.h_stride <= kRankOfWidePass;
}

bool IsFasterAsPair(const LoraArgs& args) {
  const int64_t blocks = int64_t{kLoraSplits} * args.num_segments * args.num_slices;
  return IsPrefill(args) || (args.h_stride <= 2 * kTileRanks && blocks >= kBlocksOfPair);
}

}  // namespace

void LaunchLora(Part part, const LoraArgs& args, const LaunchOptions& options, Stream& stream) {
  if (args.num_segments == 0 || args.num_rows == 0) return;
  const int64_t n_max = *std::max_element(args.slice_n, args.slice_n + args.num_slices);
  const int64_t n_blocks =
      part == Part::kExpand ? std::max<int64_t>(1, CeilDiv(n_max, kGroupN * kWarps)) : kLoraSplits;
  KernelArgs kernel_args{.lora = args, .vectors = AllowsVectors(args)};
  const int64_t n_total = std::accumulate(args.slice_n, args.slice_n + args.num_slices, int64_t{0});
  kernel_args.add_in_l2 = options.add_in_l2 >= 0
                              ? options.add_in_l2 != 0
                              : CanOverlapLaunches() && args.num_rows * n_total <= kAddInL2Max;
  // Two groups ahead: four cost more in blocks per multiprocessor than they bring.
  const int32_t depth = options.depth > 0 ? options.depth : 2;
  const bool is_wide = options.row_tiles > 0 ? options.row_tiles > 1 : IsPrefill(args);
  const int32_t row_tiles = is_wide ? 2 : 1;
  const int64_t blocks = n_blocks * args.num_segments * args.num_slices;
  const int64_t passes = CeilDiv(args.num_rows, row_tiles * kTileRows);
  const int64_t spread = args.num_rows > args.num_segments ? kBlocksWantedUneven : kBlocksWanted;
  const int64_t wanted = std::max(spread / blocks, CeilDiv(passes, args.num_segments));
  kernel_args.row_splits = options.row_splits > 0
                               ? options.row_splits
                               : static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, passes));
  const dim3 grid(static_cast<unsigned>(n_blocks), static_cast<unsigned>(args.num_segments),
                  static_cast<unsigned>(args.num_slices * kernel_args.row_splits));
  switch (part) {
    case Part::kShrink:
      return LaunchPart<Part::kShrink>(kernel_args, grid, depth, row_tiles, options.overlap,
                                       stream);
    case Part::kExpand:
      return LaunchPart<Part::kExpand>(kernel_args, grid, depth, row_tiles, options.overlap,
                                       stream);
    case Part::kBoth:
      return LaunchPart<Part::kBoth>(kernel_args, grid, depth, row_tiles, options.overlap, stream);
  }
}

}  // namespace lora

void LoraShrinkCuda(const LoraArgs& args, Stream& stream) {
  if (args.dtype == DType::kF32) return lora::LaunchLoraF32(lora::Part::kShrink, args, stream);
  lora::LaunchLora(lora::Part::kShrink, args, {}, stream);
}

void LoraExpandCuda(const LoraArgs& args, Stream& stream) {
  if (args.dtype == DType::kF32) return lora::LaunchLoraF32(lora::Part::kExpand, args, stream);
  lora::LaunchLora(lora::Part::kExpand, args, {}, stream);
}

void LoraCuda(const LoraArgs& args, Stream& stream) {
  if (args.dtype == DType::kF32 || !CanOverlapLaunches() || lora::IsFasterAsPair(args)) {
    LoraShrinkCuda(args, stream);
    LoraExpandCuda(args, stream);
    return;
  }
  lora::LaunchLora(lora::Part::kBoth, args, {}, stream);
}

}  // namespace graft
