// Hopper's GEMM kernels for bf16: the tiles from kTilesSplit on.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {

Launcher HighTileBf16(size_t tile) {
  return LauncherOf<kTilesSplit, kNumTiles, DType::kBF16, false>(tile);
}

}  // namespace graft::hopper
