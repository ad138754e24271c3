// TensorNames: a family's names of tensors as a model's files have them. Immutable once made; any
// thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "model/family.h"

namespace graft {

class TensorNames {
 public:
  // `has`: whether the files have a tensor of that name.
  TensorNames(const ModelConfig& config, const std::function<bool(const std::string&)>& has);

  // The files' name of a path of ModulePaths, or of one below it.
  std::string Of(std::string_view path) const;
  std::string WeightOf(std::string_view path) const { return Of(path) + ".weight"; }
  // Whether a tensor is of a module that is computed.
  bool IsOurs(std::string_view name) const;
  // Whether files may have it, and nothing computes with it.
  bool IsIdle(std::string_view name) const;

 private:
  const ModelFamily& family_;
  bool leaves_out_ = false;  // ModulePaths::left_out
};

}  // namespace graft
