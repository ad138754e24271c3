// Hopper's products of codes of 8 bits with scales in fp32.
#include "kernels/gemm/gemm_hopper_codes_launch.cuh"

namespace graft::codes {

const HopperLaunchers& HopperInt8WideLaunchers() {
  static constexpr HopperLaunchers kLaunchers = HopperLaunchersOf<Kind::kInt8Wide>();
  return kLaunchers;
}

}  // namespace graft::codes
