// The GEMM by mma.sync for codes of 4 bits with scales in fp32.
#include "kernels/gemm/gemm_codes_launch.cuh"

namespace graft::codes {

const KindLaunchers& Int4WideLaunchers() {
  static constexpr KindLaunchers kLaunchers = LaunchersOf<Kind::kInt4Wide>();
  return kLaunchers;
}

}  // namespace graft::codes
