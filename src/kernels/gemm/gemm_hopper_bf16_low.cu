// Hopper's GEMM kernels for bf16: the tiles before kTilesSplit.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {

Launcher LowTileBf16(size_t tile) { return LauncherOf<0, kTilesSplit, DType::kBF16, false>(tile); }

}  // namespace graft::hopper
