// The GEMM by mma.sync for bf16.
#include "kernels/gemm/gemm_mma_launch.cuh"

namespace graft::mma {

Launcher Bf16(size_t tile) { return LauncherOf<DType::kBF16, false, false, 0>(tile); }
Launcher CopyingBf16() { return Launch<Shape<DType::kBF16, kFirstWide, false, false, true>>; }

}  // namespace graft::mma
