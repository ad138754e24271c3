// The GEMM by mma.sync for NF4.
#include "kernels/gemm/gemm_codes_launch.cuh"

namespace graft::codes {

const KindLaunchers& Normal4Launchers() {
  static constexpr KindLaunchers kLaunchers = LaunchersOf<Kind::kNormal4>();
  return kLaunchers;
}

}  // namespace graft::codes
