// Rows of an adapter's tensors, from the file's dtype into the served one. Pure functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace graft {

template <typename T>
T LoadElement(const void* data, int64_t i) {
  T value;  // the file's tensors may be misaligned
  std::memcpy(&value, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

inline bool IsFinite(float x) { return std::isfinite(x); }
inline bool IsFinite(Bfloat16 x) { return (x.bits & 0x7f80u) != 0x7f80u; }
inline bool IsFinite(Float16 x) { return (x.bits & 0x7c00u) != 0x7c00u; }

// By way of fp32, which loses nothing of what the narrower types hold.
template <typename To, typename From>
To ConvertElement(From value) {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else {
    return FromFloat<To>(ToFloat(value));
  }
}

// "[2, 3]".
std::string SizesText(const std::vector<int64_t>& shape);

// The rows of a matrix to these places, in dtype `to`. False where a value is not finite there.
bool CopyTensorRows(const TensorView& matrix, DType to, const void* const* rows);

// Names the first value of a matrix that has no finite counterpart in the served dtype; there must
// be one. The matrix is the file's tensor `name` from row `first_row` on.
Status NotFiniteError(const std::string& name, int64_t first_row, const TensorView& matrix,
                      DType dtype);

// Calls function.template operator()<From, To>().
template <typename Function>
bool DispatchCopy(DType from, DType to, const Function& function) {
  return DispatchDType(from, [&]<typename From>() {
    return DispatchDType(to,
                         [&]<typename To>() { return function.template operator()<From, To>(); });
  });
}

}  // namespace graft
