#include "model/module_tensors.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "model/tensor_rows.h"

namespace graft {

int64_t RawTensor::num_elements() const {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

Result<RawTensor> ModuleTensors::Get(std::string_view end) const {
  const std::string name = NameOf(end);
  const SafetensorsFile* const file = files_.FileOf(name);
  if (file == nullptr) {
    return NotFoundError("tensor " + name + " is missing, which belongs to the quantised weight " +
                         module_);
  }
  ASSIGN_OR_RETURN(const std::span<const char> bytes, file->Bytes(name));
  const SafetensorsEntry& entry = file->entries().find(name)->second;
  used_.insert(name);
  return RawTensor{name, entry.dtype, entry.shape, bytes};
}

Result<RawTensor> ModuleTensors::Get(std::string_view end,
                                     std::initializer_list<std::string_view> dtypes,
                                     const std::vector<int64_t>& shape) const {
  ASSIGN_OR_RETURN(RawTensor raw, Get(end));
  if (std::ranges::find(dtypes, raw.dtype) == dtypes.end()) {
    return UnimplementedError("tensor " + raw.name + " has dtype " + raw.dtype +
                              ", its quantisation has " + Joined(dtypes, " or "));
  }
  if (raw.shape != shape) {
    return InvalidArgumentError("tensor " + raw.name + " has shape " + SizesText(raw.shape) +
                                ", config.json with its quantization_config asks for " +
                                SizesText(shape));
  }
  return raw;
}

Result<ScaleTensor> ModuleTensors::Scales(std::string_view end,
                                          const std::vector<int64_t>& shape) const {
  ScaleTensor scales;
  ASSIGN_OR_RETURN(scales.raw, Get(end, {"F32", "BF16", "F16"}, shape));
  scales.dtype = scales.raw.dtype == "F32"    ? DType::kF32
                 : scales.raw.dtype == "BF16" ? DType::kBF16
                                              : DType::kF16;
  for (int64_t i = 0; i < scales.raw.num_elements(); ++i) {
    if (std::isfinite(scales.At(i))) continue;
    return DataLossError("tensor " + scales.raw.name + " holds NaN or Inf at " + std::to_string(i) +
                         "; the file is damaged");
  }
  return scales;
}

Result<std::vector<int32_t>> ModuleTensors::Groups(std::string_view end, int64_t inputs,
                                                   int64_t groups) const {
  ASSIGN_OR_RETURN(const RawTensor raw, Get(end, {"I32"}, {inputs}));
  std::vector<int32_t> group_of(static_cast<size_t>(inputs));
  bool in_order = true;
  for (int64_t i = 0; i < inputs; ++i) {
    const int32_t group = raw.At<int32_t>(i);
    if (group < 0 || group >= groups) {
      return DataLossError("tensor " + raw.name + " puts input " + std::to_string(i) +
                           " into group " + std::to_string(group) + " of " +
                           std::to_string(groups));
    }
    group_of[static_cast<size_t>(i)] = group;
    in_order &= group == i / (inputs / groups);
  }
  if (in_order) group_of.clear();
  return group_of;
}

}  // namespace graft
