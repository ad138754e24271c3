// The GEMM by mma.sync for bf16 with LoRA inside.
#include "kernels/gemm/gemm_mma_launch.cuh"

namespace graft::mma {

Launcher Bf16Lora(size_t tile) { return LauncherOf<DType::kBF16, true, false, kFirstWide>(tile); }
Launcher CopyingBf16Lora() { return Launch<Shape<DType::kBF16, kFirstWide, true, false, true>>; }

}  // namespace graft::mma
