// The GEMM by mma.sync for codes of 8 bits with scales in bf16.
#include "kernels/gemm/gemm_codes_launch.cuh"

namespace graft::codes {

const KindLaunchers& Int8Launchers() {
  static constexpr KindLaunchers kLaunchers = LaunchersOf<Kind::kInt8>();
  return kLaunchers;
}

}  // namespace graft::codes
