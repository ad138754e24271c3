// Buffers for benches: every page touched and no two alike, so that neither the kernel's zero page
// nor an all-zero shortcut flatters a figure.
#pragma once

#include <cstdint>

#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace graft {

// n elements of `dtype` in [-0.5, 0.5].
inline Buffer BenchBuffer(DType dtype, int64_t n) {
  Buffer buffer(n * DTypeBytes(dtype));
  DispatchDType(dtype, [&]<typename T>() {
    T* values = buffer.as<T>();
    for (int64_t i = 0; i < n; ++i) {
      values[i] = FromFloat<T>(static_cast<float>(i * 7919 % 1009) / 1009.0f - 0.5f);
    }
  });
  return buffer;
}

}  // namespace graft
