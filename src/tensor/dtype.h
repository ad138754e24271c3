// Element types and their host arithmetic. Bfloat16 and Float16 are storage types: widen, compute
// in float, narrow with round-to-nearest-even.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/check.h"

namespace graft {

enum class DType : uint8_t { kF32, kBF16, kF16 };

constexpr int64_t DTypeBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

constexpr std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
  }
  return "?";
}

struct Bfloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

inline float ToFloat(float x) { return x; }
inline float ToFloat(Bfloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
float ToFloat(Float16 x);

template <typename T>
T FromFloat(float x);
template <>
inline float FromFloat<float>(float x) {
  return x;
}
template <>
inline Bfloat16 FromFloat<Bfloat16>(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {  // NaN stays NaN
    return Bfloat16{static_cast<uint16_t>((bits >> 16) | 0x40u)};
  }
  return Bfloat16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
template <>
Float16 FromFloat<Float16>(float x);

template <typename T>
constexpr DType DTypeOf();
template <>
constexpr DType DTypeOf<float>() {
  return DType::kF32;
}
template <>
constexpr DType DTypeOf<Bfloat16>() {
  return DType::kBF16;
}
template <>
constexpr DType DTypeOf<Float16>() {
  return DType::kF16;
}

// Calls function.template operator()<T>() with dtype's C++ type.
template <typename Function>
decltype(auto) DispatchDType(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kF32:
      return function.template operator()<float>();
    case DType::kBF16:
      return function.template operator()<Bfloat16>();
    case DType::kF16:
      return function.template operator()<Float16>();
  }
  CHECK(false) << "no such dtype: " << static_cast<int>(dtype);
  __builtin_unreachable();
}

// n elements from one type to another, any pair.
void ConvertElements(DType from, const void* source, DType to, void* target, int64_t n);

}  // namespace graft
