// Hopper's GEMM kernels for bf16 and LoRA beside it: the tiles before kTilesSplit.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {

Launcher LowTileBf16Lora(size_t tile) {
  return LauncherOf<0, kTilesSplit, DType::kBF16, true>(tile);
}

}  // namespace graft::hopper
