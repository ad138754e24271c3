// Where bytes live and work runs.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

enum class DeviceKind : unsigned char { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;

  bool is_cpu() const { return kind == DeviceKind::kCpu; }
  bool operator==(const Device&) const = default;
  std::string ToString() const;  // "cpu", "cuda:0"
};

// "auto" (the best this binary and machine have), "cpu", "cuda" or "cuda:N". kUnimplemented where
// the binary has no backend for it.
Result<Device> ParseDevice(const std::string& text);

}  // namespace graft
