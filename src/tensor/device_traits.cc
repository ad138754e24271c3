#include "tensor/device_traits.h"

#include <algorithm>

namespace graft {
namespace {

constexpr int kAmpereSharedBytes = 163 << 10;
constexpr int kAdaSharedBytes = 99 << 10;

}  // namespace

DeviceTraits TraitsOfCard(int major, int num_multiprocessors, int shared_bytes_max,
                          bool has_hopper_code) {
  // What was compiled for older cards neither waits for the kernel before it, nor has a body where
  // Hopper's instructions would stand; and sm_90a runs on no later card.
  const bool is_hopper = major == 9 && has_hopper_code;
  return {.family = is_hopper ? GpuFamily::kHopper : GpuFamily::kAmpere,
          .num_multiprocessors = num_multiprocessors,
          .shared_bytes_max = shared_bytes_max,
          .overlaps_launches = is_hopper};
}

DeviceTraits LoweredTo(std::string_view family, const DeviceTraits& traits) {
  const bool is_ada = family == "ada";
  if (traits.family == GpuFamily::kNone || (!is_ada && family != "ampere")) return traits;
  DeviceTraits lowered = traits;
  lowered.family = GpuFamily::kAmpere;
  lowered.shared_bytes_max =
      std::min(traits.shared_bytes_max, is_ada ? kAdaSharedBytes : kAmpereSharedBytes);
  lowered.overlaps_launches = false;
  return lowered;
}

}  // namespace graft
