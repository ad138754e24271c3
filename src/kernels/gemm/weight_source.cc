#include "kernels/gemm/weight_source.h"

#include "base/check.h"
#include "kernels/gemm/gemm_cuda.h"

namespace graft {

StackedTensors::StackedTensors(std::span<const TensorView> parts) : parts_(parts) {
  CHECK(!parts.empty());
  for (const TensorView& part : parts) {
    CHECK_EQ(part.shape.size(), size_t{2});
    CHECK_EQ(part.shape[1], parts[0].shape[1]);
    n_ += part.shape[0];
  }
}

void StackedTensors::Read(int64_t n, int64_t k_begin, int64_t k, DType dtype, char* out) const {
  for (const TensorView& part : parts_) {
    if (n >= part.shape[0]) {
      n -= part.shape[0];
      continue;
    }
    const char* row = static_cast<const char*>(part.data) +
                      (n * part.shape[1] + k_begin) * DTypeBytes(part.dtype);
    ConvertElements(part.dtype, row, dtype, out, k);
    return;
  }
}

RandomNumbers::RandomNumbers(std::span<const DrawnRows> parts, int64_t k, float deviation)
    : parts_(parts.begin(), parts.end()), k_(k), deviation_(deviation) {
  for (const DrawnRows& part : parts_) n_ += part.n;
}

void RandomNumbers::Read(int64_t n, int64_t k_begin, int64_t k, DType dtype, char* out) const {
  for (const DrawnRows& part : parts_) {
    if (n >= part.n) {
      n -= part.n;
      continue;
    }
    const int64_t first = n * k_ + k_begin;
    DispatchDType(dtype, [&]<typename T>() {
      for (int64_t i = 0; i < k; ++i) {
        reinterpret_cast<T*>(out)[i] = FromFloat<T>(RandomWeight(part.seed, first + i, deviation_));
      }
    });
    return;
  }
}

}  // namespace graft
