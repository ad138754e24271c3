#include "tensor/allocations.h"

#include <atomic>
#include <limits>
#include <string>

#include "base/out_of_memory.h"

namespace graft {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct Account {
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> bytes_max{kNoLimit};
};

Account& AccountOf(const Device& device) {
  static Account host, gpus;
  return device.is_cpu() ? host : gpus;
}

}  // namespace

int64_t AllocatedBytes(const Device& device) { return AccountOf(device).bytes; }

void BookAllocation(const Device& device, int64_t bytes) {
  Account& account = AccountOf(device);
  if (account.bytes.fetch_add(bytes) + bytes <= account.bytes_max) return;
  account.bytes -= bytes;
  ThrowOutOfMemory(device.ToString() + " may hold no " + std::to_string(bytes) + " bytes more");
}

void BookFree(const Device& device, int64_t bytes) { AccountOf(device).bytes -= bytes; }

AllocationLimit::AllocationLimit(const Device& device, int64_t bytes_more) : device_(device) {
  Account& account = AccountOf(device);
  account.bytes_max = account.bytes + bytes_more;
}

AllocationLimit::~AllocationLimit() { AccountOf(device_).bytes_max = kNoLimit; }

}  // namespace graft
