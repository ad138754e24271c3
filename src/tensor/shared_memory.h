// SharedMemory: zeroed memory of a file without a name, which other processes map through its
// descriptor. Only what is touched takes memory. Any thread, one at a time.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"

namespace graft {

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  static Result<SharedMemory> Create(int64_t bytes);
  // Maps another process's memory. The descriptor is this object's from here on.
  static Result<SharedMemory> Map(int descriptor);

  // Makes a stretch page-locked and visible to every GPU at the same address, where there is one;
  // borders are multiples of 4096. Once per stretch; undone with the object. Any thread.
  void Lock(int64_t begin, int64_t bytes);

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  int descriptor() const { return descriptor_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  int descriptor_ = -1;
  std::mutex mutex_;
  std::vector<char*> locked_;  // where stretches begin; guarded by mutex_
};

}  // namespace graft
