// Hopper's GEMM kernels for bf16 and LoRA beside it: the tiles from kTilesSplit on.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {

Launcher HighTileBf16Lora(size_t tile) {
  return LauncherOf<kTilesSplit, kNumTiles, DType::kBF16, true>(tile);
}

}  // namespace graft::hopper
