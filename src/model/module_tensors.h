// The tensors that stand for one quantised weight in a checkpoint: MODULE.qweight, MODULE.scales
// and so on, each checked before it is read. Errors name the tensor. Borrows the files; one thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/safetensors.h"
#include "tensor/dtype.h"

namespace graft {

// Bytes of a file, which may lie at odd addresses.
struct RawTensor {
  std::string name;
  std::string dtype;  // as the file spells it: "I32"
  std::vector<int64_t> shape;
  std::span<const char> bytes;

  int64_t num_elements() const;
  // Element i of a tensor with elements of this size.
  template <typename T>
  T At(int64_t i) const {
    T value;
    std::memcpy(&value, bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
};

// Scales: fp32, bf16 or fp16, all of them finite.
struct ScaleTensor {
  RawTensor raw;
  DType dtype = DType::kF32;

  float At(int64_t i) const {
    switch (dtype) {
      case DType::kF32:
        return raw.At<float>(i);
      case DType::kBF16:
        return ToFloat(raw.At<Bfloat16>(i));
      case DType::kF16:
        return ToFloat(raw.At<Float16>(i));
    }
    __builtin_unreachable();
  }
};

class ModuleTensors {
 public:
  // The names of tensors that were read are added to `used`.
  ModuleTensors(const SafetensorsSet& files, std::string module, std::set<std::string>& used)
      : files_(files), module_(std::move(module)), used_(used) {}

  const std::string& module() const { return module_; }
  std::string NameOf(std::string_view end) const { return module_ + std::string(end); }
  bool Has(std::string_view end) const { return files_.Contains(NameOf(end)); }
  // Whatever it is.
  Result<RawTensor> Get(std::string_view end) const;
  // A tensor of one of these dtypes and this shape.
  Result<RawTensor> Get(std::string_view end, std::initializer_list<std::string_view> dtypes,
                        const std::vector<int64_t>& shape) const;
  // kDataLoss where a scale is NaN or Inf.
  Result<ScaleTensor> Scales(std::string_view end, const std::vector<int64_t>& shape) const;
  // For each input the group that its scale is in: [inputs] of int32 in [0, groups). Empty where
  // input i is in group i / (inputs / groups), which needs no table.
  Result<std::vector<int32_t>> Groups(std::string_view end, int64_t inputs, int64_t groups) const;

 private:
  const SafetensorsSet& files_;
  const std::string module_;
  std::set<std::string>& used_;
};

}  // namespace graft
