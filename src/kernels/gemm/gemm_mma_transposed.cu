// The GEMM by mma.sync for bf16 that reads W transposed, with LoRA and without.
#include "kernels/gemm/gemm_mma_launch.cuh"

namespace graft::mma {

Launcher TransposingBf16(size_t tile) {
  return LauncherOf<DType::kBF16, false, true, kFirstWide>(tile);
}
Launcher TransposingBf16Lora(size_t tile) {
  return LauncherOf<DType::kBF16, true, true, kFirstWide>(tile);
}

}  // namespace graft::mma
