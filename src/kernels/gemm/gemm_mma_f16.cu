// The GEMM by mma.sync for fp16.
#include "kernels/gemm/gemm_mma_launch.cuh"

namespace graft::mma {

Launcher F16(size_t tile) { return LauncherOf<DType::kF16, false, false, 0>(tile); }
Launcher CopyingF16() { return Launch<Shape<DType::kF16, kFirstWide, false, false, true>>; }

}  // namespace graft::mma
