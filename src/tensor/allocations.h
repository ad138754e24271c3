// How many bytes Buffers and PinnedBuffers hold by now, of the host and of all GPUs together: what
// sums of memory that were made beforehand are compared with. Any thread.
#pragma once

#include <cstdint>

#include "tensor/device.h"

namespace graft {

// What something takes: of a device, and of the host's memory beside a GPU.
struct BytesNeeded {
  int64_t on_device = 0;
  int64_t on_host = 0;
};

// The bytes allocated on the device; on the CPU, plain and page-locked ones.
int64_t AllocatedBytes(const Device& device);

// Books the bytes before they are allocated. OutOfMemory where an AllocationLimit forbids them.
void BookAllocation(const Device& device, int64_t bytes);
void BookFree(const Device& device, int64_t bytes);

// For tests: a device of so many bytes more than are allocated now. One at a time.
class AllocationLimit {
 public:
  AllocationLimit(const Device& device, int64_t bytes_more);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

 private:
  const Device device_;
};

}  // namespace graft
