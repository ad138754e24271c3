// WeightFormat: how the numbers of a weight are stored, and what the products take them as. Plain
// numbers are stored as they are multiplied; a code of fewer bits has scales, one for a block of
// numbers along k. Plain data; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace graft {

// What a code stands for, beside its block's scale s.
enum class WeightCodes : uint8_t {
  kNone,      // there are none: plain numbers
  kIntegers,  // s (code - zero)
  kNormal4,   // s kNormal4Numbers[code], bitsandbytes' NF4
};

// NF4 (QLoRA, appendix E): quantiles of a normal distribution, from -1 to 1, one of them 0.
inline constexpr float kNormal4Numbers[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

struct WeightFormat {
  // Plain numbers, which need no scales.
  constexpr WeightFormat(DType dtype)  // NOLINT: a dtype is such a format
      : operands(dtype), bits(static_cast<int32_t>(8 * DTypeBytes(dtype))) {}

  // Codes of 4 or 8 bits. `numbers_per_scale`: a multiple of 32, or all of a row's.
  static constexpr WeightFormat Integers(DType operands, int32_t bits, int64_t numbers_per_scale,
                                         bool has_zero_points = false, DType scales = DType::kF32) {
    WeightFormat format(operands);
    format.codes = WeightCodes::kIntegers;
    format.bits = bits;
    format.scale_numbers = numbers_per_scale;
    format.has_zero_points = has_zero_points;
    format.scales = scales;
    return format;
  }
  static constexpr WeightFormat Normal4(DType operands, int64_t numbers_per_scale = 64) {
    WeightFormat format(operands);
    format.codes = WeightCodes::kNormal4;
    format.bits = 4;
    format.scale_numbers = numbers_per_scale;
    return format;
  }

  DType operands;  // what the products take
  WeightCodes codes = WeightCodes::kNone;
  int32_t bits;               // of a stored number; a divisor or a multiple of 8
  int64_t scale_numbers = 0;  // along k, that share a scale; 0: there are no scales
  // What holds every scale exactly: bf16 or fp32. The CPU keeps fp32 in any case.
  DType scales = DType::kF32;
  // Integers' blocks have zero points of their own; else all have the middle code, 2^(bits - 1).
  bool has_zero_points = false;
  // The codes of a row stand in an order of their own, which is kept beside them: inputs of one
  // scale may lie anywhere in x.
  bool has_input_order = false;

  constexpr bool is_plain() const { return codes == WeightCodes::kNone; }
  // What k numbers of a row take.
  constexpr int64_t RowBytes(int64_t k) const { return (k * bits + 7) / 8; }

  bool operator==(const WeightFormat&) const = default;
};

// Scales of a row of k numbers.
constexpr int64_t NumScales(const WeightFormat& format, int64_t k) {
  return format.scale_numbers == 0 ? 0 : (k + format.scale_numbers - 1) / format.scale_numbers;
}

}  // namespace graft
