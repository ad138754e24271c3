// Hopper's GEMM kernels for fp16: the tiles before kTilesSplit.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {

Launcher LowTileF16(size_t tile) { return LauncherOf<0, kTilesSplit, DType::kF16, false>(tile); }

}  // namespace graft::hopper
