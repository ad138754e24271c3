// Operands for benches, in the memory of the stream's device: every page touched and no two
// neighbours alike, so that neither the kernel's zero page nor an all-zero shortcut flatters a
// figure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/shuffle.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/device_array.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// n elements of `dtype` in [-0.5, 0.5]. On a GPU they repeat after some ten million.
inline Buffer BenchBuffer(DType dtype, int64_t n, const Stream& stream) {
  constexpr int64_t kPeriod = 1009 * 16384;
  const int64_t num_distinct = stream.device.is_cpu() ? n : std::min(n, kPeriod);
  Buffer host(num_distinct * DTypeBytes(dtype));
  DispatchDType(dtype, [&]<typename T>() {
    T* values = host.as<T>();
    stream.cpu_threads->ParallelFor(num_distinct, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        values[i] = FromFloat<T>(static_cast<float>(i * 7919 % 1009) / 1009.0f - 0.5f);
      }
    });
  });
  if (stream.device.is_cpu()) return host;
  Buffer buffer(n * DTypeBytes(dtype), stream.device);
  for (int64_t at = 0; at < buffer.bytes(); at += host.bytes()) {
    CopyToDevice(buffer.as<char>() + at, host.data(), std::min(host.bytes(), buffer.bytes() - at),
                 stream);
  }
  Synchronize(stream);
  return buffer;
}

// Tokens of each of `count` sequences: all `most`, or, with a `least` above 0, spread evenly from
// there to `most` and shuffled.
inline std::vector<int32_t> SequenceLengths(int32_t count, int32_t least, int32_t most,
                                            Random& random) {
  std::vector<int32_t> lengths(count, most);
  if (least == 0 || count == 1) return lengths;
  for (int32_t i = 0; i < count; ++i) lengths[i] = least + (most - least) * i / (count - 1);
  Shuffle(lengths, random);
  return lengths;
}

}  // namespace graft
