// Hopper's GEMM kernels for fp16: the tiles from kTilesSplit on.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {

Launcher HighTileF16(size_t tile) {
  return LauncherOf<kTilesSplit, kNumTiles, DType::kF16, false>(tile);
}

}  // namespace graft::hopper
