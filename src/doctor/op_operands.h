// Operands of the checks: numbers on the host, which have been rounded to a dtype, and the same in
// a device's memory. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/device_array.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// n numbers of a normal distribution times `scale`, each of which `dtype` holds.
std::vector<float> DrawNumbers(int64_t n, uint64_t seed, DType dtype, double scale = 1.0);

// The numbers in `dtype`, where the stream's device reads them.
Buffer NumbersOnDevice(const std::vector<float>& numbers, DType dtype, const Stream& stream);
// n numbers of `dtype`, when all that the stream was given is done.
std::vector<float> NumbersFrom(const Buffer& buffer, DType dtype, int64_t n, const Stream& stream);

// What products and LoRA read as x beside weights of `dtype`: on the CPU it stays fp32.
inline DType ActivationsBeside(DType dtype, const Stream& stream) {
  return stream.device.is_cpu() ? DType::kF32 : dtype;
}
// How keys and values are kept beside it: on the CPU bf16 becomes fp16 (layers/served_types.h).
inline DType KvBeside(DType dtype, const Stream& stream) {
  return stream.device.is_cpu() && dtype == DType::kBF16 ? DType::kF16 : dtype;
}

// What one rounding to `dtype`, after sums in fp32, may cost.
double ToleranceOf(DType dtype);

}  // namespace graft
