#include "tensor/device_traits.h"

#include <algorithm>

namespace graft {
namespace {

struct Family {
  std::string_view name;
  int compute;
  int shared_bytes_max;
  int shared_bytes_of_multiprocessor;
  int threads_of_multiprocessor;
};

// CUDA C++ Programming Guide, "Compute Capabilities": a multiprocessor has 1 KiB more than a block.
constexpr Family kFamilies[] = {{"ampere", 80, 163 << 10, 164 << 10, 2048},
                                {"ada", 89, 99 << 10, 100 << 10, 1536},
                                {"sm100", 100, 227 << 10, 228 << 10, 2048},
                                {"sm120", 120, 99 << 10, 100 << 10, 1536}};

}  // namespace

DeviceTraits TraitsOfCard(DeviceTraits card, bool compiles_hopper) {
  // What was compiled for older cards neither waits for the kernel before it, nor has a body where
  // Hopper's instructions would stand; and sm_90a runs on no later card.
  card.has_hopper_code = card.compute / 10 == 9 && compiles_hopper;
  card.overlaps_launches = card.has_hopper_code;
  return card;
}

DeviceTraits LoweredTo(std::string_view family, const DeviceTraits& traits) {
  const auto* const lesser = std::ranges::find(kFamilies, family, &Family::name);
  if (!traits.is_gpu() || lesser == std::end(kFamilies)) return traits;
  DeviceTraits lowered = traits;
  lowered.has_hopper_code = false;
  lowered.overlaps_launches = false;
  lowered.compute = std::min(traits.compute, lesser->compute);
  lowered.shared_bytes_max = std::min(traits.shared_bytes_max, lesser->shared_bytes_max);
  lowered.shared_bytes_of_multiprocessor =
      std::min(traits.shared_bytes_of_multiprocessor, lesser->shared_bytes_of_multiprocessor);
  lowered.threads_of_multiprocessor =
      std::min(traits.threads_of_multiprocessor, lesser->threads_of_multiprocessor);
  return lowered;
}

}  // namespace graft
