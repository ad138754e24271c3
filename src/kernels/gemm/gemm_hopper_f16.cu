// Hopper's GEMM kernels for fp16.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {

Launcher TileF16(size_t tile) { return LauncherOf<0, kNumF16Tiles, DType::kF16, false>(tile); }

}  // namespace graft::hopper
