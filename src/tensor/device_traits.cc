#include "tensor/device_traits.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/device_choice.h"

namespace graft {
namespace {

struct Family {
  std::string_view name;
  int compute;
  int shared_bytes_of_multiprocessor;
  int threads_of_multiprocessor;
  int blocks_of_multiprocessor;
  int64_t l2_bytes;  // of the least card of the family
  bool overlaps_launches;
};

// CUDA C++ Programming Guide, "Compute Capabilities". L2: NVIDIA's white papers and data sheets of
// A100 (40 MB), A10 (6 MB), L4 (48 MB), B200 (126 MB) and RTX 5090 (96 MB).
constexpr Family kFamilies[] = {{"ampere", 80, 164 << 10, 2048, 32, 40 << 20, false},
                                {"sm86", 86, 100 << 10, 1536, 16, 6 << 20, false},
                                {"ada", 89, 100 << 10, 1536, 24, 48 << 20, false},
                                {"sm100", 100, 228 << 10, 2048, 32, 126 << 20, true},
                                {"sm120", 120, 100 << 10, 1536, 24, 96 << 20, true}};
// The system has so much of a multiprocessor's shared memory for each block.
constexpr int kSystemBytes = 1 << 10;

// Cards and code from here on have griddepcontrol.
constexpr int kFirstWithOverlap = 90;

bool HasHopperCode(std::string_view architectures) {
  return (',' + std::string(architectures)).find(",90a") != std::string::npos;
}

std::string CapabilityText(int compute) {
  return std::to_string(compute / 10) + "." + std::to_string(compute % 10);
}

}  // namespace

DeviceTraits TraitsOfCard(DeviceTraits card, std::string_view architectures) {
  const int code = ArchitectureFor(architectures, card.compute / 10, card.compute % 10);
  // sm_90a runs on no later card.
  card.has_hopper_code = card.compute == 90 && HasHopperCode(architectures);
  // What was compiled for older cards does not wait for the kernel before it.
  card.overlaps_launches = card.compute >= kFirstWithOverlap && code >= kFirstWithOverlap;
  return card;
}

Status CheckGpuFamily(std::string_view family) {
  if (family.empty() || std::ranges::count(kFamilies, family, &Family::name) > 0) return OkStatus();
  std::string names;
  for (const Family& known : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return InvalidArgumentError("GRAFT_GPU_FAMILY=" + std::string(family) + ": must be one of " +
                              names + ", or not set");
}

DeviceTraits LoweredTo(std::string_view family, const DeviceTraits& traits) {
  if (!traits.is_gpu() || family.empty()) return traits;
  const auto* const lesser = std::ranges::find(kFamilies, family, &Family::name);
  CHECK(lesser != std::end(kFamilies)) << CheckGpuFamily(family).message();
  DeviceTraits lowered = traits;
  lowered.stands_in_for = lesser->name;
  lowered.card_compute = traits.own_compute();
  lowered.compute = lesser->compute;
  lowered.has_hopper_code = false;
  lowered.overlaps_launches = traits.overlaps_launches && lesser->overlaps_launches;
  const auto lower = [](auto& value, auto limit) { value = std::min(value, limit); };
  lower(lowered.shared_bytes_max, lesser->shared_bytes_of_multiprocessor - kSystemBytes);
  lower(lowered.shared_bytes_of_multiprocessor, lesser->shared_bytes_of_multiprocessor);
  lower(lowered.threads_of_multiprocessor, lesser->threads_of_multiprocessor);
  lower(lowered.blocks_of_multiprocessor, lesser->blocks_of_multiprocessor);
  lower(lowered.l2_bytes, lesser->l2_bytes);
  return lowered;
}

std::string KernelsText(const DeviceTraits& traits) {
  const std::string card = "compute capability " + CapabilityText(traits.own_compute());
  if (traits.has_hopper_code) return "Hopper's, tuned on an H100 and an H200 (" + card + ")";
  std::string text = "the general ones (" + card;
  if (traits.is_forced()) text += " standing in for " + std::string(traits.stands_in_for);
  return text +
         "): right here, but their tiles and splits, and the limits of a step's time, are tuned on "
         "Hopper alone; graft doctor says what to expect";
}

}  // namespace graft
