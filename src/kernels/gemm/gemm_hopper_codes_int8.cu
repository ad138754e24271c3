// Hopper's products of codes of 8 bits with scales in bf16.
#include "kernels/gemm/gemm_hopper_codes_launch.cuh"

namespace graft::codes {

const HopperLaunchers& HopperInt8Launchers() {
  static constexpr HopperLaunchers kLaunchers = HopperLaunchersOf<Kind::kInt8>();
  return kLaunchers;
}

}  // namespace graft::codes
