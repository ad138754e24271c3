// Chooses the tile for a shape, and makes the tensor maps that describe the operands to Hopper's
// kernels.
#include <cuda.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "kernels/common/cuda_tensor_map.cuh"
#include "kernels/gemm/gemm_hopper_launch.cuh"
#include "tensor/device_traits.h"

namespace graft {
namespace hopper {

CUtensorMap MakeMap(const void* data, DType dtype, int64_t columns, int64_t column_stride,
                    std::initializer_list<MapDimension> dimensions) {
  TensorMapShape shape{.sizes = {static_cast<cuuint64_t>(columns)}, .box = {kBoxColumns}};
  const int64_t row_bytes = column_stride * DTypeBytes(dtype);
  shape.count = 1;
  for (const MapDimension& dimension : dimensions) {
    shape.sizes[shape.count] = static_cast<cuuint64_t>(dimension.size);
    shape.strides[shape.count - 1] = static_cast<cuuint64_t>(dimension.stride * row_bytes);
    shape.box[shape.count++] = static_cast<cuuint32_t>(dimension.box);
  }
  return EncodeTensorMap(
      dtype == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      data, shape, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

// The map of what is added to y (LoRA's delta): boxes of all m rows by `box_columns`.
CUtensorMap MakeDeltaMap(const GemmCudaArgs& args, int box_columns) {
  // A single row may have any stride, but a map's stride must be a multiple of 16 bytes.
  const int64_t stride = args.gemm.m == 1 ? CeilDiv(args.n, 4) * 4 : args.gemm.y_stride;
  const auto rows = static_cast<cuuint32_t>(args.gemm.m);
  const TensorMapShape shape{
      .count = 2,
      .sizes = {static_cast<cuuint64_t>(args.n), rows},
      .strides = {static_cast<cuuint64_t>(stride) * sizeof(float)},
      .box = {static_cast<cuuint32_t>(box_columns), rows},
  };
  return EncodeTensorMap(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, args.gemm.epilogue.lora->beside.delta,
                         shape, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

DeviceLimits LimitsOf(const Device& device) {
  const DeviceTraits& traits = TraitsOf(device);
  return {traits.shared_bytes_max, traits.num_multiprocessors};
}

GemmLoraArgs LoraOf(const GemmArgs& gemm, int64_t n) {
  GemmLoraArgs out;
  out.lora = *gemm.epilogue.lora;
  out.vectors = gemm.epilogue.activated == nullptr || n % 16 == 0;
  for (int32_t s = 0; s < out.lora.num_slices; ++s) {
    out.vectors &= out.lora.slice_begin[s] % 8 == 0 && out.lora.slice_n[s] % 8 == 0;
  }
  out.h = lora::PackedHOf(out.lora);
  return out;
}

}  // namespace hopper

namespace {

using hopper::IsOnBorder;
using hopper::kF16Tiles;
using hopper::kLoraProcessorsMin;
using hopper::kTiles;
using hopper::kTilesSplit;
using hopper::LimitsOf;
using hopper::MaxClusters;

// From so many rows on clusters are chosen among tiles that should take equally long, because they
// load less.
constexpr int64_t kSharingRowsMin = 4096;
// With stages of four boxes, more rows of x than this leave room for too few stages.
constexpr int64_t kTallStageRowsMax = 32;

// How many items the clusters of a launch have. An item is a tile for each block of a cluster.
int64_t ItemsOf(const GemmTile& tile, int64_t m, int64_t n) {
  return CeilDiv(CeilDiv(m, tile.rows()), tile.share_w ? tile.blocks : 1) *
         CeilDiv(CeilDiv(n, tile.columns()), tile.share_w ? 1 : tile.blocks);
}

// Corrections at 65 to 127 rows, in tiles that are not swapped. They were seen on an H100 and are
// not explained (workshop/cuda_gemm.md). A second tile of 64 rows makes both slower, the more so
// the fewer rows it has, though as much is loaded. Fewer blocks than multiprocessors stream W
// nearly as fast as all do.
struct BetweenTiles {
  double memory = 1.0;  // a block's part of the memory, over its part if all are busy
  double slower = 1.0;  // the time of a step

  BetweenTiles(const GemmTile& tile, int64_t m, int64_t num_blocks, int num_processors) {
    constexpr double kMemoryMax = 1.6;
    constexpr double kMissingRows = 0.8;
    if (m <= 64 || m >= 128 || tile.swapped) return;
    memory = std::clamp(static_cast<double>(num_processors) / static_cast<double>(num_blocks), 1.0,
                        kMemoryMax);
    if (tile.rows() >= m) return;
    slower += kMissingRows * static_cast<double>(CeilDiv(m, tile.rows()) * tile.rows() - m) / 64.0;
  }
};

// A rough estimate in clock cycles. A step of 64 columns costs the slowest of four: the matrix
// units, shared memory, the path from the second-level cache, and this tile's share of the path
// from memory. Writing y is added. The constants were fitted to an H200 (workshop/cuda_gemm.md);
// only the order of the results matters.
double PredictCycles(const GemmTile& tile, int64_t m, int64_t n, int64_t k, int64_t num_rounds,
                     int num_processors) {
  constexpr double kCacheBytesPerCycle = 47.0;
  constexpr double kMemoryBytesPerCycle = 15.0;
  constexpr double kSharedRowsPerCycle = 1.33;  // of 128 bytes
  constexpr double kStageCycles = 46.0;
  constexpr double kStoreCyclesPerElement = 0.266;
  constexpr double kSwappedStoreCyclesPerElement = 0.287;
  constexpr double kTileCycles = 1042.0;
  constexpr double kPairOfGroups = 1.06;   // two warpgroups slow each other down
  constexpr double kSwappedGroups = 1.21;  // up to three groups; rows are no power of two
  const BetweenTiles between(tile, m, ItemsOf(tile, m, n) * tile.blocks, num_processors);
  const int64_t row_tiles = CeilDiv(m, tile.rows());
  const auto rounds = static_cast<double>(num_rounds);
  const auto rows = static_cast<double>(std::min<int64_t>(tile.rows(), CeilDiv(m, 8) * 8));
  const double columns = tile.columns();
  const double slower = tile.swapped ? kSwappedGroups : tile.groups > 1 ? kPairOfGroups : 1.0;
  const double multiply = 2.0 * tile.width * tile.groups * slower;
  // The copy engine writes a stage once. Each warpgroup reads its own 64 rows and all of the other
  // operand.
  const double share =
      (tile.groups * 128.0 + (1.0 + tile.groups) * tile.width) / kSharedRowsPerCycle;
  const double load =
      (rows / (tile.share_w ? 1 : tile.blocks) + columns / (tile.share_w ? tile.blocks : 1)) *
      128.0 / kCacheBytesPerCycle;
  const double stream =
      columns * 128.0 / (kMemoryBytesPerCycle * between.memory) / static_cast<double>(row_tiles);
  const double steps = static_cast<double>(CeilDiv(k, kBoxColumns));
  const double store = (tile.swapped ? kSwappedStoreCyclesPerElement : kStoreCyclesPerElement) *
                       tile.rows() * columns;
  const double step =
      between.slower * std::max({multiply, share, load, stream}) + kStageCycles / tile.boxes;
  return rounds * (steps * step + store + kTileCycles);
}

// The kernels of one kind: bf16, fp16, or bf16 with LoRA.
struct Kind {
  std::span<const GemmTile> tiles;
  hopper::Launcher (*low)(size_t tile);   // of the tiles before `split`
  hopper::Launcher (*high)(size_t tile);  // of the others
  size_t split;
  hopper::Launcher (*copying)();
};
constexpr Kind kKinds[] = {
    {kTiles, hopper::LowTileBf16, hopper::HighTileBf16, kTilesSplit, hopper::CopyingBf16},
    {kF16Tiles, hopper::TileF16, nullptr, std::size(kF16Tiles), hopper::CopyingF16},
    {kTiles, hopper::LowTileBf16Lora, hopper::HighTileBf16Lora, kTilesSplit,
     hopper::CopyingBf16Lora},
};

std::span<const GemmTile> TilesOf(const GemmTileNeeds& needs) {
  if (needs.transposed) return hopper::kTransposingTiles;
  if (needs.dtype == DType::kF16) return kF16Tiles;
  return kTiles;
}

}  // namespace

std::vector<GemmTile> HopperGemmTiles(DType dtype) {
  const std::span<const GemmTile> tiles = TilesOf({.dtype = dtype});
  return {tiles.begin(), tiles.end()};
}

GemmTile ChooseHopperGemmTile(int64_t m, int64_t n, int64_t k, const GemmTileNeeds& needs,
                              const Device& device) {
  const int num_processors =
      LimitsOf(device).num_processors - (needs.lora_beside ? kLoraProcessorsMin : 0);
  // Beside LoRA the fewest rounds win: each round reads x through the cache once more, and LoRA's
  // reads take the same path. 12288 rows of W took 34 us in three rounds of 40 rows, and 27 us in
  // one round of 120.
  const auto cost_of = [&](const GemmTile& tile) {
    // How many tiles the busiest block computes, one after the other.
    const int64_t rounds = CeilDiv(ItemsOf(tile, m, n), MaxClusters(tile.blocks, num_processors));
    return std::tuple(needs.lora_beside ? rounds : 0,
                      PredictCycles(tile, m, n, k, rounds, num_processors),
                      m >= kSharingRowsMin ? -tile.blocks : 0);
  };
  GemmTile best = {};
  auto best_cost = std::tuple(std::numeric_limits<int64_t>::max(), 0.0, 0);
  for (const GemmTile& tile : TilesOf(needs)) {
    if (tile.boxes > 2 && m > kTallStageRowsMax) continue;
    if (needs.activates && !tile.activates(n)) continue;
    if (needs.lora_beside && (tile.groups > 1 || tile.blocks > 1)) continue;
    const auto cost = cost_of(tile);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = tile;
  }
  return best;
}

void GemmHopper(const GemmCudaArgs& args, const GemmTile& tile, Stream& stream,
                int shared_bytes_max) {
  const GemmArgs& gemm = args.gemm;
  const bool has_lora = LoraAt(gemm, LoraPlace::kInside) != nullptr;
  CHECK(!has_lora || (args.dtype == DType::kBF16 && gemm.epilogue.lora->dtype == DType::kBF16))
      << "LoRA inside " << DTypeName(args.dtype);
  if (gemm.transposed) {
    CHECK(args.dtype == DType::kBF16 && gemm.epilogue.activated == nullptr &&
          LoraAt(gemm, LoraPlace::kBeside) == nullptr);
    CHECK(IsOnBorder(gemm.x) && (gemm.m == 1 || gemm.x_stride % 8 == 0));
    const auto launcher =
        has_lora ? hopper::TransposingBf16Lora(tile) : hopper::TransposingBf16(tile);
    return launcher(args, shared_bytes_max, stream);
  }
  const Kind& kind = kKinds[has_lora ? 2 : args.dtype == DType::kF16 ? 1 : 0];
  if (!IsOnBorder(gemm.x) || (gemm.m > 1 && gemm.x_stride % 8 != 0)) {
    return kind.copying()(args, shared_bytes_max, stream);
  }
  const auto found = static_cast<size_t>(std::ranges::find(kind.tiles, tile) - kind.tiles.begin());
  CHECK_LT(found, kind.tiles.size()) << "no such tile";
  const auto launcher_of = found < kind.split ? kind.low : kind.high;
  launcher_of(found)(args, shared_bytes_max, stream);
}

}  // namespace graft
