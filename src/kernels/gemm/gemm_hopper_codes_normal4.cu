// Hopper's products of NF4.
#include "kernels/gemm/gemm_hopper_codes_launch.cuh"

namespace graft::codes {

const HopperLaunchers& HopperNormal4Launchers() {
  static constexpr HopperLaunchers kLaunchers = HopperLaunchersOf<Kind::kNormal4>();
  return kLaunchers;
}

}  // namespace graft::codes
