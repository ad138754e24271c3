// Hopper's products of codes of 4 bits with scales in bf16.
#include "kernels/gemm/gemm_hopper_codes_launch.cuh"

namespace graft::codes {

const HopperLaunchers& HopperInt4Launchers() {
  static constexpr HopperLaunchers kLaunchers = HopperLaunchersOf<Kind::kInt4>();
  return kLaunchers;
}

}  // namespace graft::codes
