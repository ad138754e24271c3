// Chooses a tile for Hopper's products of codes.
#include "kernels/common/cuda_vector.cuh"
#include "kernels/gemm/gemm_bricks.h"
#include "kernels/gemm/gemm_hopper_codes_tiles.h"
#include "kernels/gemm/gemm_layout.h"
#include "tensor/device_traits.h"

namespace graft {
namespace codes {
namespace {

const HopperLaunchers& LaunchersOf(Kind kind) {
  switch (kind) {
    case Kind::kInt4:
      return HopperInt4Launchers();
    case Kind::kInt4Wide:
      return HopperInt4WideLaunchers();
    case Kind::kInt8:
      return HopperInt8Launchers();
    case Kind::kInt8Wide:
      return HopperInt8WideLaunchers();
    case Kind::kNormal4:
      return HopperNormal4Launchers();
  }
  __builtin_unreachable();
}

// The tile of the fewest rows that has all of x. Several tiles have as many rows: the tallest one
// is taken that still has most of the card busy.
size_t ChooseHopperTile(int64_t m, int64_t n, int num_ranges, int num_processors) {
  constexpr double kBusyMin = 0.8;
  size_t best = kNumHopperTiles;
  for (size_t i = 0; i < kNumHopperTiles; ++i) {
    const HopperTile& tile = kHopperTiles[i];
    if (num_ranges > 1 && tile.groups > 1) continue;
    const bool has_more_rows = best == kNumHopperTiles || tile.rows > kHopperTiles[best].rows;
    if (has_more_rows) {
      if (best == kNumHopperTiles || kHopperTiles[best].rows < m) best = i;
      continue;
    }
    const auto blocks = static_cast<double>(CeilDiv(n, tile.groups * 64));
    if (tile.rows == kHopperTiles[best].rows && blocks >= kBusyMin * num_processors) best = i;
  }
  return best;
}

}  // namespace
}  // namespace codes

bool HopperMultipliesCodes(const GemmCudaArgs& args) {
  const GemmArgs& gemm = args.gemm;
  return args.codes && LoraAt(gemm, LoraPlace::kInside) == nullptr &&
         LoraAt(gemm, LoraPlace::kBeside) == nullptr && IsVectorAligned(gemm.x) &&
         (gemm.m == 1 || gemm.x_stride % 8 == 0);
}

void GemmCodesHopper(const GemmCudaArgs& args, size_t tile, Stream& stream) {
  CHECK_LT(tile, codes::kNumHopperTiles);
  const WeightFormat& format = args.gemm.weight->format();
  const codes::HopperLaunchers& launchers = codes::LaunchersOf(codes::KindOf(format, args.k));
  const bool in_two = GemmBricksLayout(format, args.n, args.k).num_ranges() == 2;
  const codes::Launcher launch = (in_two ? launchers.of_two_ranges : launchers.plain)[tile];
  CHECK(launch != nullptr) << "tile " << tile << " of two ranges";
  launch(args, stream);
}

void GemmCodesHopper(const GemmCudaArgs& args, Stream& stream) {
  const GemmBricksLayout layout(args.gemm.weight->format(), args.n, args.k);
  GemmCodesHopper(args,
                  codes::ChooseHopperTile(args.gemm.m, args.n, layout.num_ranges(),
                                          TraitsOf(stream.device).num_multiprocessors),
                  stream);
}

}  // namespace graft
