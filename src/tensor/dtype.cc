#include "tensor/dtype.h"

#include <cmath>

namespace graft {

float ToFloat(Float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

template <>
Float16 FromFloat<Float16>(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return Float16{static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return Float16{static_cast<uint16_t>(sign | 0x7c00u)};  // overflow
  if (magnitude < 0x38800000u) {  // subnormal: round the value in units of 2^-24
    const float units = std::ldexp(std::bit_cast<float>(magnitude), 24);
    return Float16{static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(units)))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return Float16{static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

void ConvertElements(DType from, const void* source, DType to, void* target, int64_t n) {
  if (from == to) {
    std::memcpy(target, source, static_cast<size_t>(n * DTypeBytes(from)));
    return;
  }
  DispatchDType(from, [&]<typename From>() {
    DispatchDType(to, [&]<typename To>() {
      // Bytes, not typed pointers: file data may be misaligned.
      const char* in = static_cast<const char*>(source);
      char* out = static_cast<char*>(target);
      for (int64_t i = 0; i < n; ++i) {
        From x;
        std::memcpy(&x, in + i * sizeof(From), sizeof(From));
        const To y = FromFloat<To>(ToFloat(x));
        std::memcpy(out + i * sizeof(To), &y, sizeof(To));
      }
    });
  });
}

}  // namespace graft
