#include "tensor/shared_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tensor/cuda_memory.h"

namespace graft {
namespace {

Status SystemError(const char* what) {
  return ResourceExhaustedError(std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(locked_, other.locked_);
  return *this;
}

SharedMemory::~SharedMemory() {
  for (char* const begin : locked_) UnlockPages(begin);
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
  if (descriptor_ >= 0) close(descriptor_);
}

Result<SharedMemory> SharedMemory::Create(int64_t bytes) {
  const int descriptor = memfd_create("graft", MFD_CLOEXEC);
  if (descriptor < 0) return SystemError("memory to share with other processes");
  if (ftruncate(descriptor, bytes) != 0) {
    const Status status = SystemError("memory to share with other processes");
    close(descriptor);
    return status;
  }
  return Map(descriptor);
}

Result<SharedMemory> SharedMemory::Map(int descriptor) {
  SharedMemory memory;
  memory.descriptor_ = descriptor;
  struct stat facts = {};
  if (fstat(descriptor, &facts) != 0) return SystemError("shared memory");
  if (facts.st_size == 0) return memory;
  void* const data = mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (data == MAP_FAILED) return SystemError("shared memory");
  memory.data_ = static_cast<char*>(data);
  memory.bytes_ = facts.st_size;
  return memory;
}

void SharedMemory::Lock(int64_t begin, int64_t bytes) {
  CHECK(begin >= 0 && bytes > 0 && begin + bytes <= bytes_);
  LockPages(data_ + begin, bytes);
  const std::lock_guard lock(mutex_);
  locked_.push_back(data_ + begin);
}

}  // namespace graft
