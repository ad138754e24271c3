// The other half of Hopper's GEMM kernels for bf16 with LoRA's products in them.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {

Launcher HighTileBf16Lora(size_t tile) {
  return LauncherOf<kTilesSplit, kNumTiles, DType::kBF16, true>(tile);
}

}  // namespace graft::hopper
