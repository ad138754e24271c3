// Values of the host where an op on a stream reads them. One stream at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream.h"

namespace graft {

// They are there when this returns.
template <typename T>
Buffer OnDevice(const std::vector<T>& values, const Stream& stream) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
  Buffer buffer(bytes, stream.device);
  CopyToDevice(buffer.data(), values.data(), bytes, stream);
  Synchronize(stream);
  return buffer;
}

}  // namespace graft
