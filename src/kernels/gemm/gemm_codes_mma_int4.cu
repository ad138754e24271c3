// The GEMM by mma.sync for codes of 4 bits with scales in bf16.
#include "kernels/gemm/gemm_codes_launch.cuh"

namespace graft::codes {

const KindLaunchers& Int4Launchers() {
  static constexpr KindLaunchers kLaunchers = LaunchersOf<Kind::kInt4>();
  return kLaunchers;
}

}  // namespace graft::codes
