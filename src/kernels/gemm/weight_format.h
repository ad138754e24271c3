// WeightFormat: how the numbers of a weight are stored, and what the products take them as. Plain
// numbers are stored as they are multiplied; a code of fewer bits has scales, one for some numbers
// along k. Plain data; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace graft {

struct WeightFormat {
  // Plain numbers, which need no scales.
  constexpr WeightFormat(DType dtype)  // NOLINT: a dtype is such a format
      : operands(dtype), bits(static_cast<int32_t>(8 * DTypeBytes(dtype))) {}
  constexpr WeightFormat(DType products, int32_t code_bits, int32_t numbers_per_scale)
      : operands(products), bits(code_bits), scale_numbers(numbers_per_scale) {}

  DType operands;             // what the products take
  int32_t bits;               // of a stored number; a divisor or a multiple of 8
  int32_t scale_numbers = 0;  // along k, that share an fp32 scale; 0: there are no scales

  constexpr bool is_plain() const { return scale_numbers == 0 && bits == 8 * DTypeBytes(operands); }
  // What k numbers of a row take, and their scales.
  constexpr int64_t RowBytes(int64_t k) const { return (k * bits + 7) / 8; }
  constexpr int64_t ScaleBytes(int64_t k) const {
    if (scale_numbers == 0) return 0;
    return (k + scale_numbers - 1) / scale_numbers * int64_t{sizeof(float)};
  }

  bool operator==(const WeightFormat&) const = default;
};

}  // namespace graft
