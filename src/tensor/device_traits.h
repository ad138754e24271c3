// DeviceTraits: what of a device its kernels are chosen by and their work is divided by. Asked once
// per device and the same from then on. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/device.h"

namespace graft {

struct DeviceTraits {
  int compute = 0;                 // compute capability, 10 * major + minor: 80, 89, 90; 0: a CPU
  bool has_hopper_code = false;    // the copy engine, wgmma and clusters, compiled for sm_90a
  bool overlaps_launches = false;  // a kernel may begin while the one before it ends
  int num_multiprocessors = 0;
  int shared_bytes_max = 0;  // of shared memory, that one thread block may have
  int shared_bytes_of_multiprocessor = 0;
  int threads_of_multiprocessor = 0;
  int64_t l2_bytes = 0;

  bool is_gpu() const { return compute > 0; }
  bool operator==(const DeviceTraits&) const = default;
};

// The traits of a device that has kernels in this binary. GRAFT_GPU_FAMILY lowers them (LoweredTo).
const DeviceTraits& TraitsOf(const Device& device);

// A card with the code that this binary has for it: `compiles_hopper` says whether kernels were
// compiled for sm_90a.
DeviceTraits TraitsOfCard(DeviceTraits card, bool compiles_hopper);

// What a lesser card would choose, to test it on a better one: "ampere" (sm_80), "ada" (sm_89),
// "sm100" and "sm120" (Blackwell, which has no Hopper code). Limits become the lesser of both.
// Other words change nothing, and neither does any on a CPU.
DeviceTraits LoweredTo(std::string_view family, const DeviceTraits& traits);

}  // namespace graft
