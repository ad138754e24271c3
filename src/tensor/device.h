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

// CUDA devices that the driver shows, whether kernels run on them or not (device_choice.h): 0
// without the backend, a driver or a card.
int NumCudaDevices();

// For people: "NVIDIA H200, compute capability 9.0, 139 GiB", "CPU".
std::string DescribeDevice(const Device& device);

// The newest CUDA that the driver runs, "13.0"; "" without the backend or a driver.
std::string CudaDriverVersion();

}  // namespace graft
