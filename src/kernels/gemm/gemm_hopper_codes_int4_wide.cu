// Hopper's products of codes of 4 bits with scales in fp32.
#include "kernels/gemm/gemm_hopper_codes_launch.cuh"

namespace graft::codes {

const HopperLaunchers& HopperInt4WideLaunchers() {
  static constexpr HopperLaunchers kLaunchers = HopperLaunchersOf<Kind::kInt4Wide>();
  return kLaunchers;
}

}  // namespace graft::codes
