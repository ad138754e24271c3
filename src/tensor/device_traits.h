// DeviceTraits: what of a device its kernels are chosen by and their work is divided by. Asked once
// per device and the same from then on. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/device.h"

namespace graft {

struct DeviceTraits {
  // Compute capability by which kernels are chosen, 10 * major + minor: 80, 89, 90; 0: a CPU.
  int compute = 0;
  bool has_hopper_code = false;    // the copy engine, wgmma and clusters, compiled for sm_90a
  bool overlaps_launches = false;  // a kernel may begin while the one before it ends
  int num_multiprocessors = 0;
  int shared_bytes_max = 0;  // of shared memory, that one thread block may have
  int shared_bytes_of_multiprocessor = 0;
  int threads_of_multiprocessor = 0;
  int64_t l2_bytes = 0;
  int blocks_of_multiprocessor = 0;
  double memory_gbytes_per_s = 0.0;  // by the clock and the width of its memory; 0: not told
  // The card's own compute capability, which its bits depend on, where `stands_in_for` makes
  // `compute` another one; 0 elsewhere.
  int card_compute = 0;
  std::string_view stands_in_for = {};  // the family of GRAFT_GPU_FAMILY

  bool is_gpu() const { return compute > 0; }
  bool is_forced() const { return !stands_in_for.empty(); }
  int own_compute() const { return is_forced() ? card_compute : compute; }
  bool operator==(const DeviceTraits&) const = default;
};

// The traits of a device that has kernels in this binary. GRAFT_GPU_FAMILY lowers them (LoweredTo).
const DeviceTraits& TraitsOf(const Device& device);

// A card with the code that a binary of these architectures, as CMake names them
// ("80-real,90a-real"), has for it.
DeviceTraits TraitsOfCard(DeviceTraits card, std::string_view architectures);

// What a lesser card would choose, to test it on a better one: "ampere" (A100, sm_80), "sm86" (A10
// and RTX 30), "ada" (sm_89: L4, L40S and RTX 40), "sm100" (B200) and "sm120" (RTX 50). Limits
// become the lesser of both. Any other word is a bug of the caller's: see CheckGpuFamily.
DeviceTraits LoweredTo(std::string_view family, const DeviceTraits& traits);
// kInvalidArgument names the families that there are. "" is none, and right.
Status CheckGpuFamily(std::string_view family);

// For the line at a server's start: which kernels a GPU takes, and what is not tuned there.
std::string KernelsText(const DeviceTraits& traits);

}  // namespace graft
