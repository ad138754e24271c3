// Chooses a tile for products of codes by mma.sync.
#include <limits>

#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_bricks.h"
#include "kernels/gemm/gemm_codes_tiles.h"
#include "kernels/gemm/gemm_layout.h"
#include "tensor/device_traits.h"

namespace graft {
namespace codes {
namespace {

const KindLaunchers& LaunchersOf(Kind kind) {
  switch (kind) {
    case Kind::kInt4:
      return Int4Launchers();
    case Kind::kInt4Wide:
      return Int4WideLaunchers();
    case Kind::kInt8:
      return Int8Launchers();
    case Kind::kInt8Wide:
      return Int8WideLaunchers();
    case Kind::kNormal4:
      return Normal4Launchers();
  }
  __builtin_unreachable();
}

// By the kernels' machine code (workshop/gpu_codes.md).
double InstructionsOf(Kind kind) {
  switch (kind) {
    case Kind::kInt4:
      return 1.9;
    case Kind::kInt8:
      return 2.3;
    case Kind::kInt4Wide:
    case Kind::kInt8Wide:
      return 3.9;
    case Kind::kNormal4:
      return 4.0;
  }
  __builtin_unreachable();
}

Launcher LauncherFor(const GemmCudaArgs& args, size_t tile) {
  const GemmArgs& gemm = args.gemm;
  const LoraArgs* const lora = LoraAt(gemm, LoraPlace::kInside);
  CHECK(lora == nullptr || lora->dtype == DType::kBF16)
      << "LoRA of " << DTypeName(lora->dtype) << " inside codes";
  CHECK(LoraAt(gemm, LoraPlace::kBeside) == nullptr) << "LoRA beside codes without room";
  CHECK(gemm.epilogue.activated == nullptr || CodesActivate(args.n, args.k)) << args.n;
  const KindLaunchers& launchers = LaunchersOf(KindOf(gemm.weight->format(), args.k));
  const bool off_border = !IsVectorAligned(gemm.x) || (gemm.m > 1 && gemm.x_stride % 8 != 0);
  if (off_border || args.k % 8 != 0) return launchers.copying;
  if (lora == nullptr) {
    const bool in_two = GemmBricksLayout(gemm.weight->format(), args.n, args.k).num_ranges() == 2;
    return in_two && tile < kFirstWide ? launchers.of_two_ranges[tile] : launchers.plain[tile];
  }
  CHECK_GE(tile, kFirstWide);
  return launchers.lora[tile - kFirstWide];
}

}  // namespace

size_t ChooseTile(const WeightFormat& format, int64_t m, int64_t n, int64_t k, bool is_wide,
                  const DeviceTraits& traits) {
  const Kind kind = KindOf(format, k);
  const GemmBricksLayout layout(format, n, k);
  constexpr auto kBrickNumbers = static_cast<double>(kBrickRows * kBrickColumns);
  size_t best = kFirstWide;
  double best_cycles = std::numeric_limits<double>::max();
  for (size_t i = is_wide ? kFirstWide : 0; i < kNumTiles; ++i) {
    mma::Tile tile = MmaTileOf(kind, i);
    const int table_bytes = kind == Kind::kNormal4 ? kTiles[i].table_copies * 2048 : 0;
    const auto stage = static_cast<int>(tile.columns / kBrickRows * layout.brick_bytes +
                                        int64_t{tile.rows} * tile.depth * 2);
    const mma::TileWeight w{.number_bytes = static_cast<double>(layout.brick_bytes) / kBrickNumbers,
                            .number_instructions = InstructionsOf(kind),
                            .block_bytes = tile.stages * stage + table_bytes};
    if (!mma::FitsOnCard(tile, w, traits)) continue;
    // Two groups of warps are like a tile of twice the columns, of half as many of k.
    const int groups = i < kFirstWide ? layout.num_ranges() : 1;
    tile.columns *= groups;
    tile.column_warps *= groups;
    tile.stages /= groups;
    const double cycles = mma::PredictCycles(tile, w, m, n * groups, k / groups, traits);
    if (cycles >= best_cycles) continue;
    best_cycles = cycles;
    best = i;
  }
  return best;
}

}  // namespace codes

void GemmCodesMma(const GemmCudaArgs& args, size_t tile, Stream& stream) {
  CHECK_LT(tile, codes::kNumTiles);
  codes::LauncherFor(args, tile)(args, stream);
}

void GemmCodesMma(const GemmCudaArgs& args, Stream& stream) {
  const bool is_wide = LoraAt(args.gemm, LoraPlace::kInside) != nullptr;
  GemmCodesMma(args,
               codes::ChooseTile(args.gemm.weight->format(), args.gemm.m, args.n, args.k, is_wide,
                                 TraitsOf(stream.device)),
               stream);
}

}  // namespace graft
