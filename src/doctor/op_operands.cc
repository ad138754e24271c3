#include "doctor/op_operands.h"

#include "base/random.h"

namespace graft {

std::vector<float> DrawNumbers(int64_t n, uint64_t seed, DType dtype, double scale) {
  Random random(seed);
  std::vector<float> numbers(static_cast<size_t>(n));
  DispatchDType(dtype, [&]<typename T>() {
    for (float& number : numbers) {
      number = ToFloat(FromFloat<T>(static_cast<float>(random.Normal() * scale)));
    }
  });
  return numbers;
}

Buffer NumbersOnDevice(const std::vector<float>& numbers, DType dtype, const Stream& stream) {
  const auto n = static_cast<int64_t>(numbers.size());
  Buffer host(n * DTypeBytes(dtype));
  ConvertElements(DType::kF32, numbers.data(), dtype, host.data(), n);
  return MoveToDevice(std::move(host), stream);
}

std::vector<float> NumbersFrom(const Buffer& buffer, DType dtype, int64_t n, const Stream& stream) {
  Buffer host(n * DTypeBytes(dtype));
  CopyFromDevice(host.data(), buffer.data(), host.bytes(), stream);
  Synchronize(stream);
  std::vector<float> numbers(static_cast<size_t>(n));
  ConvertElements(dtype, host.data(), DType::kF32, numbers.data(), n);
  return numbers;
}

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4e-6;
    case DType::kBF16:
      return 1.0 / 128;
    case DType::kF16:
      return 1.0 / 1024;
  }
  return 0.0;
}

}  // namespace graft
