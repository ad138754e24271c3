// DoctorReport: what `graft doctor` found out about a device, as text for people and as JSON.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "doctor/expected_speed.h"
#include "doctor/op_check.h"
#include "kernels/kernel_list.h"
#include "tensor/device.h"
#include "tensor/device_traits.h"
#include "tensor/stream.h"

namespace graft {

struct CheckedOp {
  std::string op;
  DType dtype = DType::kF32;
  std::string difference;  // "": none
  int64_t num_compared = 0;
};

struct DoctorReport {
  Device device;
  std::string description;  // DescribeDevice
  std::string driver;       // "" on the CPU
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;  // 0: not told
  DeviceTraits traits;
  std::string instructions;  // of the host's processor
  int num_threads = 0;
  KernelList kernels;  // of a GPU
  std::vector<CheckedOp> checks;
  CardRates rates;
  std::string warning;  // of ChooseDevice

  int num_different() const;
  // Other programs have so much of the card's memory that they may compute there, too.
  bool is_shared() const;
};

// Runs the checks on the stream in every dtype that its device serves.
std::vector<CheckedOp> RunOpChecks(std::span<const OpCheck> checks, Stream& stream);

std::string DoctorText(const DoctorReport& report);
OrderedJson DoctorJson(const DoctorReport& report);

}  // namespace graft
