#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "tensor/cuda_memory.h"

namespace graft {
namespace {

// Large buffers come from mmap: zeroed lazily and, with huge pages, cheap for the TLB.
constexpr int64_t kMmapBytesMin = int64_t{4} << 20;
constexpr size_t kAlignment = 64;

}  // namespace

Buffer::Buffer(int64_t bytes, Device device) : bytes_(bytes), device_(device) {
  CHECK_GE(bytes, 0);
  if (bytes == 0) return;
  void* data = nullptr;
  if (!device.is_cpu()) {
    data = AllocateOnDevice(device, bytes);
    CHECK(data != nullptr) << device.ToString() << " is out of memory: " << bytes << " bytes asked";
  } else if (bytes >= kMmapBytesMin) {
    data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(data != MAP_FAILED) << "out of memory: " << bytes << " bytes";
    madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  } else {
    const size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
    data = std::aligned_alloc(kAlignment, rounded);
    CHECK(data != nullptr) << "out of memory: " << bytes << " bytes";
    std::memset(data, 0, rounded);
  }
  data_ = std::unique_ptr<void, Free>(data, Free{bytes, device});
}

void Buffer::Free::operator()(void* data) const {
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
