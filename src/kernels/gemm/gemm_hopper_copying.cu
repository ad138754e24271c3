// Hopper's GEMM kernels that copy x themselves, and how many clusters of blocks a card runs at
// once.
#include "kernels/gemm/gemm_hopper_launch.cuh"

namespace graft::hopper {
namespace {

template <int kBlocks>
int MaxClustersOf() {
  static const int clusters = [] {
    using Shape = HopperGemmShape<DType::kBF16, 1, 192, 1, kBlocks, true>;
    int device = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    const int shared_bytes = LimitsOf({DeviceKind::kCuda, device}).shared_bytes;
    CUDA_CHECK(cudaFuncSetAttribute(HopperGemm<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    shared_bytes));
    cudaLaunchConfig_t config = {};
    config.gridDim = kBlocks;
    config.blockDim = Shape::kThreads;
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    int count = 0;
    CUDA_CHECK(cudaOccupancyMaxActiveClusters(&count, HopperGemm<Shape>, &config));
    return count;
  }();
  return clusters;
}

}  // namespace

int MaxClusters(int num_blocks, int num_processors) {
  if (num_blocks <= 2) return num_processors / num_blocks;
  CHECK_LE(num_blocks, 5);
  return num_blocks == 3   ? MaxClustersOf<3>()
         : num_blocks == 4 ? MaxClustersOf<4>()
                           : MaxClustersOf<5>();
}

Launcher CopyingBf16() { return Launch<CopyingShape<DType::kBF16, false>>; }
Launcher CopyingF16() { return Launch<CopyingShape<DType::kF16, false>>; }
Launcher CopyingBf16Lora() { return Launch<CopyingShape<DType::kBF16, true>>; }

}  // namespace graft::hopper
