// DeviceTraits: what of a device its kernels are chosen by and their work is divided by. Asked once
// per device and the same from then on. Any thread.
#pragma once

#include <string_view>

#include "tensor/device.h"

namespace graft {

// GPUs by what the kernels can do there, in ascending order.
//   kAmpere  mma.sync and cp.async
//   kHopper  the copy engine, wgmma, clusters and launches that overlap (sm_90a)
enum class GpuFamily : unsigned char { kNone, kAmpere, kHopper };

struct DeviceTraits {
  GpuFamily family = GpuFamily::kNone;  // kNone: a CPU
  int num_multiprocessors = 0;
  int shared_bytes_max = 0;        // of shared memory, that one thread block may have
  bool overlaps_launches = false;  // a kernel may begin while the one before it ends

  bool operator==(const DeviceTraits&) const = default;
};

// The traits of a device that has kernels in this binary. GRAFT_GPU_FAMILY lowers them (LoweredTo).
const DeviceTraits& TraitsOf(const Device& device);

// What a card of this compute capability allows with the code that this binary has for it:
// has_hopper_code says whether kernels were compiled for sm_90a.
DeviceTraits TraitsOfCard(int major, int num_multiprocessors, int shared_bytes_max,
                          bool has_hopper_code);

// Lowers `traits` to those of a lesser card, to run its choices on a better one: "hopper"; "ampere"
// (sm_80: 163 KiB of shared memory); "ada" (sm_86, sm_89: 99 KiB). Other words, and families that
// are not below the card's own, change nothing.
DeviceTraits LoweredTo(std::string_view family, const DeviceTraits& traits);

}  // namespace graft
