#include "model/tensor_rows.h"

#include "base/check.h"
#include "base/strings.h"

namespace graft {
namespace {

template <typename From, typename To>
bool CopyMatrixRows(const TensorView& matrix, const void* const* rows) {
  const int64_t columns = matrix.shape[1];
  bool finite = true;
  for (int64_t j = 0; j < matrix.shape[0]; ++j) {
    To* const row = static_cast<To*>(const_cast<void*>(rows[j]));
    for (int64_t i = 0; i < columns; ++i) {
      row[i] = ConvertElement<To>(LoadElement<From>(matrix.data, j * columns + i));
      finite &= IsFinite(row[i]);
    }
  }
  return finite;
}

}  // namespace

std::string SizesText(const std::vector<int64_t>& shape) {
  return "[" + Joined(shape, ", ", [](int64_t size) { return std::to_string(size); }) + "]";
}

bool CopyTensorRows(const TensorView& matrix, DType to, const void* const* rows) {
  return DispatchCopy(matrix.dtype, to, [&]<typename From, typename To>() {
    return CopyMatrixRows<From, To>(matrix, rows);
  });
}

Status NotFiniteError(const std::string& name, int64_t first_row, const TensorView& matrix,
                      DType dtype) {
  for (int64_t i = 0; i < matrix.num_elements(); ++i) {
    const float value = DispatchDType(
        matrix.dtype, [&]<typename T>() { return ToFloat(LoadElement<T>(matrix.data, i)); });
    const bool finite =
        DispatchDType(dtype, [value]<typename T>() { return IsFinite(FromFloat<T>(value)); });
    if (finite) continue;
    std::string what = std::isnan(value) ? "NaN" : value > 0 ? "Inf" : "-Inf";
    if (std::isfinite(value)) {
      what = std::to_string(value) + ", too large for " + std::string(DTypeName(dtype)) + ",";
    }
    const int64_t columns = matrix.shape[1];
    return InvalidArgumentError("tensor \"" + name + "\" holds " + what + " at " +
                                SizesText({first_row + i / columns, i % columns}));
  }
  CHECK(false) << "no such value in " << name;
  __builtin_unreachable();
}

}  // namespace graft
