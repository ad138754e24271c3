// Where bytes live and work runs. Any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

// Whether this binary was built with the CUDA backend. It starts on machines without a driver too.
inline constexpr bool kHasCuda = GRAFT_HAS_CUDA != 0;

enum class DeviceKind : unsigned char { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;

  bool is_cpu() const { return kind == DeviceKind::kCpu; }
  bool operator==(const Device&) const = default;
  std::string ToString() const;  // "cpu", "cuda:0"
};

// Usable CUDA devices: 0 without the backend, a driver or a card.
int NumCudaDevices();

// "auto" (cuda:0 where there is one, else the CPU), "cpu", "cuda" or "cuda:N". kUnimplemented where
// the binary has no backend for it, kNotFound where the machine has no such device.
Result<Device> ParseDevice(const std::string& text);

// For people: "NVIDIA H200, compute capability 9.0, 139 GiB", "CPU".
std::string DescribeDevice(const Device& device);

}  // namespace graft
