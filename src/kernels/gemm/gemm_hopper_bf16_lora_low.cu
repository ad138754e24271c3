// Half of Hopper's GEMM kernels for bf16 with LoRA's products in them: two files compile at once.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {

Launcher LowTileBf16Lora(size_t tile) {
  return LauncherOf<0, kTilesSplit, DType::kBF16, true>(tile);
}

}  // namespace graft::hopper
