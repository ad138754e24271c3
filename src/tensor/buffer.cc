#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/out_of_memory.h"
#include "tensor/allocations.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

// Large buffers come from mmap: zeroed lazily and, with huge pages, cheap for the TLB.
constexpr int64_t kMmapBytesMin = int64_t{4} << 20;
constexpr size_t kAlignment = 64;

// Null where there is not that much.
void* Allocate(int64_t bytes, const Device& device) {
  if (!device.is_cpu()) return AllocateOnDevice(device, bytes);
  if (bytes >= kMmapBytesMin) {
    void* const data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    return data;
  }
  const size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void* const data = std::aligned_alloc(kAlignment, rounded);
  if (data != nullptr) std::memset(data, 0, rounded);
  return data;
}

}  // namespace

Buffer::Buffer(int64_t bytes, Device device) : bytes_(bytes), device_(device) {
  CHECK_GE(bytes, 0);
  if (bytes == 0) return;
  BookAllocation(device, bytes);
  void* const data = Allocate(bytes, device);
  if (data == nullptr) {
    BookFree(device, bytes);
    ThrowOutOfMemory(device.ToString() + " has no " + std::to_string(bytes) + " bytes left");
  }
  data_ = std::unique_ptr<void, Free>(data, Free{bytes, device});
}

void Buffer::Free::operator()(void* data) const {
  BookFree(device, bytes);
  if (!device.is_cpu()) {
    FreeOnDevice(device, data);
  } else if (bytes >= kMmapBytesMin) {
    munmap(data, static_cast<size_t>(bytes));
  } else {
    std::free(data);
  }
}

Buffer MoveToDevice(Buffer host, const Stream& stream) {
  if (stream.device.is_cpu()) return host;
  Buffer device(host.bytes(), stream.device);
  CopyToDevice(device.data(), host.data(), host.bytes(), stream);
  Synchronize(stream);
  return device;
}

}  // namespace graft
