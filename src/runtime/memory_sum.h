// What a command is about to take of a device's memory, and of the host's beside a GPU, term by
// term; and what there is for it. Sums are made and checked before anything is taken. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/allocations.h"
#include "tensor/device.h"

namespace graft {

int64_t GibToBytes(double gib);
// "1.5 GiB", "23 MiB".
std::string BytesText(int64_t bytes);

// MemoryBudget: how much memory this process may use. The limit is what was free when the budget
// was made, plus what the process's buffers held then; the constructor's arguments lower it. What
// is left is the limit less what the buffers hold now, and never more than what is free now.
// Buffers count in full once they are allocated, because the system counts a page of the host's
// memory as used only after it is first written.
class MemoryBudget {
 public:
  // `gib_max`: of the device's memory, at most; 0: what is free, of which as many processes as
  // `num_sharing` have equal shares.
  explicit MemoryBudget(const Device& device, double gib_max = 0.0, int32_t num_sharing = 1);

  const Device& device() const { return device_; }
  int64_t LeftOnDevice() const;
  int64_t LeftOnHost() const;
  // "12.0 GiB are free on cuda:0".
  std::string DeviceText() const;
  std::string HostText() const;

 private:
  Device device_;
  double gib_max_;
  int64_t device_bytes_max_;
  int64_t host_bytes_max_;
};

class MemorySum {
 public:
  explicit MemorySum(const Device& device) : device_(device) {}

  // `what` names the term and, in brackets, the flags that it grows with. 0 bytes make no term;
  // equal names are one term.
  void Add(const std::string& what, int64_t bytes);
  // Adds a term of the host's memory, which on a CPU is the device's.
  void AddOnHost(const std::string& what, int64_t bytes);
  void Add(const std::string& what, const BytesNeeded& needed) {
    Add(what, needed.on_device);
    AddOnHost(what, needed.on_host);
  }

  int64_t on_device() const { return Total(on_device_); }
  int64_t on_host() const { return Total(on_host_); }
  // kResourceExhausted with all terms where the budget has not that much left.
  Status Check(const MemoryBudget& budget) const;
  // The large terms of the device in one line, the largest first; and those of the host beside a
  // GPU.
  std::string ToString() const { return TextOf(on_device_); }
  std::string HostToString() const { return TextOf(on_host_); }

 private:
  struct Term {
    std::string what;
    int64_t bytes = 0;
    int count = 1;
  };
  using Terms = std::vector<Term>;

  static void AddTo(Terms& terms, const std::string& what, int64_t bytes);
  static int64_t Total(const Terms& terms);
  static std::string TextOf(Terms terms);
  static Status CheckOne(Terms terms, int64_t left, const std::string& left_text);

  const Device device_;
  Terms on_device_, on_host_;
};

}  // namespace graft
