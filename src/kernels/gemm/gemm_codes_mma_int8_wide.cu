// The GEMM by mma.sync for codes of 8 bits with scales in fp32.
#include "kernels/gemm/gemm_codes_launch.cuh"

namespace graft::codes {

const KindLaunchers& Int8WideLaunchers() {
  static constexpr KindLaunchers kLaunchers = LaunchersOf<Kind::kInt8Wide>();
  return kLaunchers;
}

}  // namespace graft::codes
