#include "adapters/strided_tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "model/safetensors_writer.h"
#include "tensor/buffer.h"

namespace graft {
namespace {

// Ascending, as safetensors orders them; what comes later in this list comes first in a file.
constexpr std::array<std::string_view, 14> kDtypeOrder = {
    "BOOL", "U8",   "I8",  "F8_E5M2", "F8_E4M3", "I16", "U16",
    "F16",  "BF16", "I32", "U32",     "F32",     "F64", "I64"};

size_t OrderOf(std::string_view dtype) {
  return static_cast<size_t>(std::ranges::find(kDtypeOrder, dtype) - kDtypeOrder.begin());
}

Status PastBits(const StridedTensor& tensor) {
  return InvalidArgumentError("tensor \"" + tensor.name + "\" has a shape past 63 bits");
}

Result<int64_t> BytesOfTensor(const StridedTensor& tensor) {
  int64_t bytes = tensor.element_bytes;
  for (const int64_t dim : tensor.shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return PastBits(tensor);
  }
  return bytes;
}

// The elements in row-major order from `dim` on; returns where the next one goes.
char* CopyFrom(const StridedTensor& tensor, size_t dim, const char* from, char* to) {
  const int64_t element = tensor.element_bytes;
  if (dim == tensor.shape.size()) {
    std::memcpy(to, from, static_cast<size_t>(element));
    return to + element;
  }
  const int64_t count = tensor.shape[dim];
  const int64_t step = count == 1 ? 0 : tensor.strides[dim] * element;  // of one: any stride
  if (dim + 1 < tensor.shape.size()) {
    for (int64_t i = 0; i < count; ++i) to = CopyFrom(tensor, dim + 1, from + i * step, to);
    return to;
  }
  if (step == element) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count * element));
    return to + count * element;
  }
  for (int64_t i = 0; i < count; ++i, to += element) {
    std::memcpy(to, from + i * step, static_cast<size_t>(element));
  }
  return to;
}

}  // namespace

Result<int64_t> ReachOf(const StridedTensor& tensor) {
  CHECK_EQ(tensor.shape.size(), tensor.strides.size());
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return int64_t{0};
  int64_t last = 0;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return PastBits(tensor);
    }
  }
  int64_t bytes = 0;
  if (__builtin_add_overflow(last, int64_t{1}, &last) ||
      __builtin_mul_overflow(last, tensor.element_bytes, &bytes)) {
    return PastBits(tensor);
  }
  return bytes;
}

Result<FileBytes> WriteStridedTensors(std::vector<StridedTensor> tensors, int64_t bytes_max) {
  std::ranges::sort(tensors, [](const StridedTensor& a, const StridedTensor& b) {
    const size_t order_a = OrderOf(a.dtype), order_b = OrderOf(b.dtype);
    return order_a != order_b ? order_a > order_b : a.name < b.name;
  });
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::vector<std::string_view> names;
  int64_t end = 0;
  for (const StridedTensor& tensor : tensors) {
    ASSIGN_OR_RETURN(const int64_t bytes, BytesOfTensor(tensor));
    const int64_t begin = end;
    if (__builtin_add_overflow(end, bytes, &end) || end > bytes_max) {
      return InvalidArgumentError("its tensors have more than " + std::to_string(bytes_max) +
                                  " bytes together");
    }
    header += "," + DumpJson(tensor.name) + R"(:{"dtype":")" + tensor.dtype + R"(","shape":)" +
              DumpJson(tensor.shape) + R"(,"data_offsets":[)" + std::to_string(begin) + "," +
              std::to_string(end) + "]}";
    names.push_back(tensor.name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) {
    return InvalidArgumentError("tensor \"" + std::string(*twice) + "\" is there twice");
  }
  const std::string start = SafetensorsStart(header + "}");
  Buffer bytes(static_cast<int64_t>(start.size()) + end);
  char* to = bytes.as<char>();
  std::memcpy(to, start.data(), start.size());
  to += start.size();
  for (const StridedTensor& tensor : tensors) {
    if (*BytesOfTensor(tensor) > 0) to = CopyFrom(tensor, 0, tensor.data, to);
  }
  CHECK(to == bytes.as<char>() + bytes.bytes());
  return FileBytes(std::move(bytes));
}

}  // namespace graft
