// Hopper's GEMM kernels for bf16 that read W transposed, with LoRA and without.
#include <algorithm>
#include <iterator>

#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {
namespace {

template <size_t kTile, bool kLora>
using TransposingShape =
    HopperGemmShape<DType::kBF16, kTransposingTiles[kTile].groups, kTransposingTiles[kTile].width,
                    kTransposingTiles[kTile].boxes, kTransposingTiles[kTile].blocks,
                    kTransposingTiles[kTile].share_w, false, false, kLora, true>;

template <bool kLora, size_t... kTile>
Launcher LauncherOf(const GemmTile& tile, std::index_sequence<kTile...>) {
  static constexpr Launcher kLaunchers[] = {Launch<TransposingShape<kTile, kLora>>...};
  const auto found = std::ranges::find(kTransposingTiles, tile) - std::begin(kTransposingTiles);
  CHECK_LT(found, std::ssize(kTransposingTiles)) << tile.ToString() << " reads no transposed W";
  return kLaunchers[found];
}

constexpr std::make_index_sequence<std::size(kTransposingTiles)> kAll;

}  // namespace

Launcher TransposingBf16(const GemmTile& tile) { return LauncherOf<false>(tile, kAll); }
Launcher TransposingBf16Lora(const GemmTile& tile) { return LauncherOf<true>(tile, kAll); }

}  // namespace graft::hopper
