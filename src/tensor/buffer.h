// Buffer owns bytes on a device, aligned to 64 bytes (a cache line and an AVX-512 register), on a
// GPU to 256. TensorView borrows them with a dtype and a shape. Neither is thread-safe; views must
// not outlive their buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/device.h"
#include "tensor/dtype.h"

namespace graft {

class Buffer {
 public:
  Buffer() = default;
  // Zeroed bytes. OutOfMemory where the device has not that many left: sizes are summed before.
  explicit Buffer(int64_t bytes, Device device = {});

  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }
  template <typename T>
  T* as() {
    return static_cast<T*>(data());
  }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data());
  }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  struct Free {
    int64_t bytes;
    Device device;
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> data_{nullptr, Free{0, {}}};
  int64_t bytes_ = 0;
  Device device_;
};

// Row-major, contiguous, read-only.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;

  int64_t num_elements() const {
    int64_t n = 1;
    for (const int64_t dim : shape) n *= dim;
    return n;
  }
  int64_t bytes() const { return num_elements() * DTypeBytes(dtype); }
};

}  // namespace graft
