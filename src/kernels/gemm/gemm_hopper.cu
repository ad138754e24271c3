// Which tile for which shape, and Hopper's kernel behind it.
#include "kernels/gemm/gemm_hopper.cuh"

#include <cuda.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "kernels/common/cuda_vector.cuh"
#include "kernels/lora/lora_beside.h"

namespace graft {
namespace {

// Where x takes next to no room, a ring of this size streams W faster than one as large as can be.
constexpr int kThinRowsMax = 8;
constexpr int kThinSharedBytes = 150 << 10;

// With LoRA beside it: multiprocessors that are LoRA's at least. So many bring tiles of 120 rows of
// W for 12288 and of 224 for 22016, which stream as fast as those for the whole card.
constexpr int kLoraProcessorsMin = 28;
// Then, the shared memory left to the small kernels that follow, so that they come early.
constexpr int kSparedBesideLora = 8 << 10;
// Then, what a block has on its way from memory, and what memory gives the whole card in a cycle.
constexpr int kBytesOnWay = 64 << 10;
constexpr int64_t kCardBytesPerCycle = 2400;

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// Asked of the driver, so that the binary starts where there is none.
EncodeTiled MapEncoder() {
  static const EncodeTiled encoder = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result;
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                cudaEnableDefault, &result));
    CHECK(result == cudaDriverEntryPointSuccess) << "the driver has no tensor maps";
    return reinterpret_cast<EncodeTiled>(entry);
  }();
  return encoder;
}

// A matrix of `count` dimensions, the innermost first, and the boxes in which it is copied.
struct MapShape {
  cuuint32_t count = 0;
  cuuint64_t sizes[4] = {};
  cuuint64_t strides[3] = {};  // bytes, of all but the innermost
  cuuint32_t box[4] = {};
};
CUtensorMap EncodeMap(CUtensorMapDataType type, const void* data, const MapShape& shape,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion) {
  CUtensorMap map;
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const CUresult error = MapEncoder()(
      &map, type, shape.count, const_cast<void*>(data), shape.sizes, shape.strides, shape.box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CHECK(error == CUDA_SUCCESS) << "cuTensorMapEncodeTiled: " << static_cast<int>(error);
  return map;
}

// Boxes of 64 columns by `box`, of a matrix of `columns` columns and, from the inside out, so many
// rows, so many rows apart.
struct MapDimension {
  int64_t size;
  int64_t stride;
  int box;
};
CUtensorMap MakeMap(const void* data, DType dtype, int64_t columns, int64_t column_stride,
                    std::initializer_list<MapDimension> dimensions) {
  MapShape shape{.sizes = {static_cast<cuuint64_t>(columns)}, .box = {kBoxColumns}};
  const int64_t row_bytes = column_stride * DTypeBytes(dtype);
  shape.count = 1;
  for (const MapDimension& dimension : dimensions) {
    shape.sizes[shape.count] = static_cast<cuuint64_t>(dimension.size);
    shape.strides[shape.count - 1] = static_cast<cuuint64_t>(dimension.stride * row_bytes);
    shape.box[shape.count++] = static_cast<cuuint32_t>(dimension.box);
  }
  return EncodeMap(
      dtype == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      data, shape, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

// W's rows of a tile, or this block's share of them: neighbours; gate and up side by side; or,
// where the tile is swapped, eight of each in turns.
template <typename Shape>
CUtensorMap MakeWMap(const GemmCudaArgs& args) {
  const int box_rows = Shape::kSplitsW ? Shape::kColumns / Shape::kBlocks : Shape::kColumns;
  const auto make = [&](std::initializer_list<MapDimension> dimensions) {
    return MakeMap(args.w, args.dtype, args.k, args.w_stride, dimensions);
  };
  const int64_t half = args.n / 2;
  if (args.gemm.activated == nullptr) return make({{args.n, 1, box_rows}, {1, args.n, 1}});
  if (Shape::kSwapped) return make({{8, 1, 8}, {2, half, 2}, {half / 8, 8, box_rows / 16}});
  return make({{half, 1, Shape::kColumns / 2}, {2, half, box_rows == Shape::kColumns ? 2 : 1}});
}

// Boxes of all m rows by `box_columns` of what is added to y.
CUtensorMap MakeDeltaMap(const GemmCudaArgs& args, int box_columns) {
  // A single row may have any stride, a map of it may not.
  const int64_t stride = args.gemm.m == 1 ? CeilDiv(args.n, 4) * 4 : args.gemm.y_stride;
  const auto rows = static_cast<cuuint32_t>(args.gemm.m);
  const MapShape shape{
      .count = 2,
      .sizes = {static_cast<cuuint64_t>(args.n), rows},
      .strides = {static_cast<cuuint64_t>(stride) * sizeof(float)},
      .box = {static_cast<cuuint32_t>(box_columns), rows},
  };
  return EncodeMap(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, args.gemm.lora_after->beside.delta, shape,
                   CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

// What one device allows.
struct DeviceLimits {
  int shared_bytes = 0;
  int num_processors = 0;
};

DeviceLimits LimitsOf(const Device& device) {
  DeviceLimits limits;
  CUDA_CHECK(cudaDeviceGetAttribute(&limits.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                    device.index));
  CUDA_CHECK(
      cudaDeviceGetAttribute(&limits.num_processors, cudaDevAttrMultiProcessorCount, device.index));
  return limits;
}

bool IsOnBorder(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

GemmLoraArgs LoraOf(const GemmArgs& gemm, int64_t n) {
  GemmLoraArgs out;
  out.lora = *gemm.lora;
  out.vectors = gemm.activated == nullptr || n % 16 == 0;
  for (int32_t s = 0; s < out.lora.num_slices; ++s) {
    out.vectors &= out.lora.slice_begin[s] % 8 == 0 && out.lora.slice_n[s] % 8 == 0;
  }
  out.h = lora::PackedHOf(out.lora);
  return out;
}

// How a block's shared memory is divided.
struct SharedPlan {
  int num_stages = 0;
  int num_lora_stages_log2 = 0;
  int bytes = 0;
};

// The ring of x and W, in what shared memory has left beside plan.bytes of other things.
template <typename Shape>
void PlanStages(const HopperGemmArgs& args, int shared_bytes_max, SharedPlan& plan) {
  const int stage_bytes = Shape::kBoxes * (args.x_box_bytes + Shape::kWBoxBytes);
  const int ring_bytes_max = shared_bytes_max - plan.bytes;
  const int ring_bytes = args.m <= kThinRowsMax
                             ? std::min(ring_bytes_max, kThinSharedBytes - kGemmBarrierBytes)
                             : ring_bytes_max;
  plan.num_stages = std::min(ring_bytes / stage_bytes, kGemmStagesMax);
  plan.bytes += plan.num_stages * stage_bytes;
}

// LoRA's ring has a stage, and as many more as those of x and W leave room for.
template <typename Shape>
SharedPlan PlanShared(const HopperGemmArgs& args, int shared_bytes_max) {
  SharedPlan plan;
  plan.bytes = kGemmBarrierBytes + Shape::kStagingBytes;
  if constexpr (Shape::kLora) {
    constexpr int kStageBytes = Shape::Lora::kStageBytes;
    plan.bytes += Shape::Lora::kTableBytes + kStageBytes;
    PlanStages<Shape>(args, shared_bytes_max, plan);
    int& log2 = plan.num_lora_stages_log2;
    for (; log2 < kLoraStagesMaxLog2 && plan.bytes + (kStageBytes << log2) <= shared_bytes_max;
         ++log2) {
      plan.bytes += kStageBytes << log2;
    }
  } else {
    PlanStages<Shape>(args, shared_bytes_max, plan);
  }
  return plan;
}

// So many clusters of kBlocks run at once: a cluster's blocks are neighbours, which leaves some of
// a card's multiprocessors over. A block takes all of a multiprocessor, whatever its tile.
template <int kBlocks>
int MaxClusters(int num_processors) {
  if constexpr (kBlocks <= 2) return num_processors / kBlocks;
  static const int clusters = [] {
    using Shape = HopperGemmShape<DType::kBF16, 1, 192, 1, kBlocks, true>;
    int device = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    const int shared_bytes = LimitsOf({DeviceKind::kCuda, device}).shared_bytes;
    CUDA_CHECK(cudaFuncSetAttribute(HopperGemm<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    shared_bytes));
    cudaLaunchConfig_t config = {};
    config.gridDim = kBlocks;
    config.blockDim = Shape::kThreads;
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    int count = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveClusters(&count, HopperGemm<Shape>, &config));
    return count;
  }();
  return clusters;
}

// What LoRA beside the product, by so many of the card's blocks, asks of it.
template <typename Shape>
void SetDelta(const GemmCudaArgs& args, int64_t num_blocks, HopperGemmArgs& out) {
  CHECK(Shape::kGroups == 1 && Shape::kBlocks == 1 && !Shape::kLora && !Shape::kSwapped);
  constexpr int kStageBytes = Shape::kBoxes * Shape::kWBoxBytes;
  const LoraBeside& beside = args.gemm.lora_after->beside;
  out.delta = {.values = beside.delta, .x_ready = beside.words, .step = beside.step};
  const bool activates = args.gemm.activated != nullptr;
  if (!Shape::kCopyX && args.gemm.m <= 32 * Shape::kBoxes && IsOnBorder(beside.delta) &&
      (activates ? out.activation.vectors : out.quads)) {
    const int box_columns = Shape::kColumns / (activates ? 2 : 1);
    out.delta.box_bytes = static_cast<int>(args.gemm.m) * box_columns * 4;
    out.delta.map = MakeDeltaMap(args, box_columns);
  }
  out.pace = {
      .stages = std::clamp(static_cast<int>(CeilDiv(kBytesOnWay, kStageBytes)), 2, out.num_stages),
      .stage_cycles = static_cast<int>(kStageBytes * num_blocks / kCardBytesPerCycle)};
}

template <typename Shape>
void Launch(const GemmCudaArgs& args, int shared_bytes_max, Stream& stream) {
  const DeviceLimits limits = LimitsOf(stream.device);
  static const bool allowed = [&] {
    CUDA_CHECK(cudaFuncSetAttribute(HopperGemm<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    limits.shared_bytes));
    return true;
  }();
  static_cast<void>(allowed);
  const GemmArgs& gemm = args.gemm;
  typename Shape::Args out = {};
  out.y = gemm.y;
  out.y_stride = gemm.y_stride;
  out.bias = gemm.bias;
  out.x = gemm.x;
  out.x_stride = gemm.x_stride;
  out.m = static_cast<int>(gemm.m);
  out.n = static_cast<int>(args.n);
  out.k = static_cast<int>(args.k);
  out.num_steps = static_cast<int>(CeilDiv(args.k, Shape::kBoxes * kBoxColumns));
  out.num_row_tiles = static_cast<int>(CeilDiv(gemm.m, Shape::kRows));
  out.num_column_tiles = static_cast<int>(CeilDiv(args.n, Shape::kColumns));
  const int box_rows =
      Shape::kSplitsX ? Shape::kRows
                      : static_cast<int>(std::min<int64_t>(Shape::kRows, CeilDiv(gemm.m, 8) * 8));
  out.x_box_bytes = box_rows * 128;
  const int64_t items = CeilDiv(out.num_row_tiles, Shape::kShareW ? Shape::kBlocks : 1) *
                        CeilDiv(out.num_column_tiles, Shape::kShareW ? 1 : Shape::kBlocks);
  const int num_processors =
      limits.num_processors - (gemm.lora_after != nullptr ? kLoraProcessorsMin : 0);
  const int64_t clusters = std::min<int64_t>(items, MaxClusters<Shape::kBlocks>(num_processors));
  const int spared_bytes =
      gemm.lora_after != nullptr ? kSparedBesideLora : gemm.spared_shared_bytes;
  const SharedPlan plan =
      PlanShared<Shape>(out, std::min(limits.shared_bytes - spared_bytes, shared_bytes_max));
  out.num_stages = plan.num_stages;
  if constexpr (Shape::kLora) {
    out.lora = LoraOf(gemm, args.n);
    out.lora.num_stages_log2 = plan.num_lora_stages_log2;
    out.kept_begin = gemm.kept_rows.begin;
    out.kept_end = gemm.kept_rows.end;
  }
  out.accumulate = gemm.accumulate;
  out.quads = IsOnBorder(gemm.y) && args.n % 4 == 0 && (gemm.m == 1 || gemm.y_stride % 4 == 0);
  if (gemm.activated != nullptr) {
    CHECK(Shape::kActivates && args.n % (Shape::kSwapped ? 16 : 2) == 0)
        << Shape::kColumns << " of " << args.n;
    out.activation = {.out = gemm.activated,
                      .vectors = IsOnBorder(gemm.activated) && args.n % 16 == 0};
  }
  if (gemm.lora_after != nullptr) SetDelta<Shape>(args, clusters, out);
  // A stage is given back when the next one's products run.
  CHECK_GE(out.num_stages, 2);
  out.reads_once = out.num_row_tiles == 1;

  CUtensorMap x_map = {};
  if (!Shape::kCopyX) {
    const int64_t stride = gemm.m == 1 ? GemmCudaStride(args.k) : gemm.x_stride;
    const int part_rows = Shape::kSplitsX ? box_rows / Shape::kBlocks : box_rows;
    x_map = MakeMap(gemm.x, args.dtype, args.k, stride, {{gemm.m, 1, part_rows}});
  }
  if (gemm.lora_after != nullptr) {
    lora::LaunchBeside(*gemm.lora_after, limits.num_processors - static_cast<int>(clusters),
                       stream);
  }
  if (Shape::kLora) lora::LaunchPackH(*gemm.lora, stream);
  LaunchKernel(HopperGemm<Shape>, dim3(static_cast<unsigned>(clusters * Shape::kBlocks)),
               dim3(Shape::kThreads), static_cast<size_t>(plan.bytes), CudaStreamOf(stream), out,
               x_map, MakeWMap<Shape>(args));
}

struct Variant {
  GemmTile tile;
  int (*max_clusters)(int num_processors);
  void (*launch[3])(const GemmCudaArgs&, int, Stream&);  // bf16, fp16, bf16 with LoRA
};

template <int kGroups, int kWidth, int kBoxes, int kBlocks, bool kShareW, bool kSwapped>
constexpr Variant MakeVariant() {
  return {
      {kGroups, kWidth, kBoxes, kBlocks, kShareW, kSwapped},
      MaxClusters<kBlocks>,
      {Launch<HopperGemmShape<DType::kBF16, kGroups, kWidth, kBoxes, kBlocks, kShareW, kSwapped>>,
       Launch<HopperGemmShape<DType::kF16, kGroups, kWidth, kBoxes, kBlocks, kShareW, kSwapped>>,
       Launch<HopperGemmShape<DType::kBF16, kGroups, kWidth, kBoxes, kBlocks, kShareW, kSwapped,
                              false, true>>}};
}
template <int kGroups, int kColumns, int kBoxes, int kBlocks>
constexpr Variant MakeVariant() {
  return MakeVariant<kGroups, kColumns, kBoxes, kBlocks, (kBlocks > 1), false>();
}
// Pairs of blocks: what weighs more in a stage is shared.
template <int kGroups, int kRows>
constexpr Variant MakeSwapped() {
  return MakeVariant<kGroups, kRows, 1, 2, (kGroups * 64 >= kRows), true>();
}

template <DType kType, bool kLora>
using CopyingShape = HopperGemmShape<kType, 1, 32, 2, 1, false, false, true, kLora>;

constexpr Variant kVariants[] = {
    // A few rows of x: fine steps of columns, so that a shape's tiles come out even.
    MakeVariant<1, 16, 2, 1>(),
    MakeVariant<1, 32, 2, 1>(),
    MakeVariant<1, 32, 4, 1>(),
    MakeVariant<1, 40, 2, 1>(),
    MakeVariant<1, 40, 4, 1>(),
    MakeVariant<1, 48, 2, 1>(),
    MakeVariant<1, 64, 2, 1>(),
    MakeVariant<1, 80, 2, 1>(),
    MakeVariant<1, 96, 2, 1>(),
    MakeVariant<1, 120, 1, 1>(),
    MakeVariant<1, 128, 1, 1>(),
    MakeVariant<1, 176, 1, 1>(),
    MakeVariant<1, 208, 1, 1>(),
    MakeVariant<1, 224, 1, 1>(),
    MakeVariant<1, 248, 1, 1>(),
    MakeVariant<1, 64, 2, 2>(),
    // A prompt or two: clusters of up to five that bring W once to all of x's tiles of 64 rows, ...
    MakeVariant<1, 128, 1, 3>(),
    MakeVariant<1, 192, 1, 3>(),
    MakeVariant<1, 224, 1, 3>(),
    MakeVariant<1, 160, 1, 4>(),
    MakeVariant<1, 256, 1, 4>(),
    MakeVariant<1, 192, 1, 5>(),
    // ... and swapped tiles, of which few rows are padding.
    MakeSwapped<1, 176>(),
    MakeSwapped<1, 208>(),
    MakeSwapped<2, 112>(),
    MakeSwapped<2, 144>(),
    MakeSwapped<2, 192>(),
    MakeSwapped<3, 80>(),
    MakeSwapped<3, 96>(),
    MakeSwapped<3, 112>(),
    MakeSwapped<3, 128>(),
    MakeSwapped<3, 144>(),
    MakeSwapped<3, 160>(),
    MakeSwapped<3, 176>(),
    // Many.
    MakeVariant<2, 64, 2, 1>(),
    MakeVariant<2, 96, 2, 1>(),
    MakeVariant<2, 128, 1, 1>(),
    MakeVariant<2, 176, 1, 1>(),
    MakeVariant<2, 256, 1, 1>(),
    MakeVariant<2, 192, 1, 2>(),
    MakeVariant<2, 224, 1, 2>(),
    MakeVariant<2, 256, 1, 2>(),
};

// More rows of x in stages of four boxes leave room for too few stages.
constexpr int64_t kTallStageRowsMax = 32;

// Tiles that the busiest block computes, one after the other.
int64_t RoundsOf(const GemmTile& tile, int64_t m, int64_t n, int max_clusters) {
  const int64_t items = CeilDiv(CeilDiv(m, tile.rows()), tile.share_w ? tile.blocks : 1) *
                        CeilDiv(CeilDiv(n, tile.columns()), tile.share_w ? 1 : tile.blocks);
  return CeilDiv(items, max_clusters);
}

// Clock cycles, roughly: per step of 64 columns the slowest of matrix units, shared memory, the way
// from the second-level cache and this tile's share of the way from memory; then writing y.
// Constants fitted to an H200 (workshop/cuda_gemm.md); only the order of the results matters.
double PredictCycles(const GemmTile& tile, int64_t m, int64_t n, int64_t k, int64_t num_rounds) {
  constexpr double kCacheBytesPerCycle = 47.0;
  constexpr double kMemoryBytesPerCycle = 15.0;
  constexpr double kSharedRowsPerCycle = 1.33;  // of 128 bytes
  constexpr double kStageCycles = 46.0;
  constexpr double kStoreCyclesPerElement = 0.266;
  constexpr double kSwappedStoreCyclesPerElement = 0.287;
  constexpr double kTileCycles = 1042.0;
  constexpr double kPairOfGroups = 1.06;   // two warpgroups get in each other's way
  constexpr double kSwappedGroups = 1.21;  // up to three, and rows that are no power of two
  const int64_t row_tiles = CeilDiv(m, tile.rows());
  const auto rounds = static_cast<double>(num_rounds);
  const auto rows = static_cast<double>(std::min<int64_t>(tile.rows(), CeilDiv(m, 8) * 8));
  const double columns = tile.columns();
  const double slower = tile.swapped ? kSwappedGroups : tile.groups > 1 ? kPairOfGroups : 1.0;
  const double multiply = 2.0 * tile.width * tile.groups * slower;
  // Written once, then read: by each warpgroup its own 64 rows and all of the other operand's.
  const double share =
      (tile.groups * 128.0 + (1.0 + tile.groups) * tile.width) / kSharedRowsPerCycle;
  const double load =
      (rows / (tile.share_w ? 1 : tile.blocks) + columns / (tile.share_w ? tile.blocks : 1)) *
      128.0 / kCacheBytesPerCycle;
  const double stream = columns * 128.0 / kMemoryBytesPerCycle / static_cast<double>(row_tiles);
  const double steps = static_cast<double>(CeilDiv(k, kBoxColumns));
  const double store = (tile.swapped ? kSwappedStoreCyclesPerElement : kStoreCyclesPerElement) *
                       tile.rows() * columns;
  return rounds * (steps * (std::max({multiply, share, load, stream}) + kStageCycles / tile.boxes) +
                   store + kTileCycles);
}

}  // namespace

std::vector<GemmTile> HopperGemmTiles() {
  std::vector<GemmTile> tiles;
  for (const Variant& variant : kVariants) tiles.push_back(variant.tile);
  return tiles;
}

GemmTile ChooseHopperGemmTile(int64_t m, int64_t n, int64_t k, const GemmTileNeeds& needs,
                              const Device& device) {
  const int num_processors =
      LimitsOf(device).num_processors - (needs.lora_beside ? kLoraProcessorsMin : 0);
  // Beside LoRA as few rounds as can be: a step's x comes through the cache once a round, and that
  // way is LoRA's too. 12288 rows of W took 34 us in three rounds of 40, 27 in one of 120.
  const auto cost_of = [&](const Variant& variant) {
    const int64_t rounds = RoundsOf(variant.tile, m, n, variant.max_clusters(num_processors));
    return std::pair(needs.lora_beside ? rounds : 0, PredictCycles(variant.tile, m, n, k, rounds));
  };
  GemmTile best = {};
  auto best_cost = std::pair(std::numeric_limits<int64_t>::max(), 0.0);
  for (const Variant& variant : kVariants) {
    if (variant.tile.boxes > 2 && m > kTallStageRowsMax) continue;
    if (needs.activates && !variant.tile.activates(n)) continue;
    if (needs.lora_beside && (variant.tile.groups > 1 || variant.tile.blocks > 1)) continue;
    const auto cost = cost_of(variant);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = variant.tile;
  }
  return best;
}

void GemmHopper(const GemmCudaArgs& args, const GemmTile& tile, Stream& stream,
                int shared_bytes_max) {
  const GemmArgs& gemm = args.gemm;
  const bool has_lora = gemm.lora != nullptr && gemm.lora->num_segments > 0;
  CHECK(!has_lora || HopperGemmTakesLora(args)) << "LoRA beside " << DTypeName(args.dtype);
  const int kind = has_lora ? 2 : args.dtype == DType::kF16 ? 1 : 0;
  const bool copies = IsOnBorder(gemm.x) && (gemm.m == 1 || gemm.x_stride % 8 == 0);
  if (!copies) {
    constexpr void (*kLaunch[])(const GemmCudaArgs&, int, Stream&) = {
        Launch<CopyingShape<DType::kBF16, false>>, Launch<CopyingShape<DType::kF16, false>>,
        Launch<CopyingShape<DType::kBF16, true>>};
    return kLaunch[kind](args, shared_bytes_max, stream);
  }
  for (const Variant& variant : kVariants) {
    if (variant.tile == tile) return variant.launch[kind](args, shared_bytes_max, stream);
  }
  CHECK(false) << "no such tile";
}

}  // namespace graft
