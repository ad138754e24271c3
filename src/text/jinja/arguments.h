// The arguments of a built-in filter, test or method, matched to its parameters by Python's rules.
// Lives for one call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "text/jinja/value.h"

namespace graft::jinja {

inline constexpr size_t kParametersMax = 5;
using ParameterNames = std::array<std::string_view, kParametersMax>;  // "" past the last

class Bound {
 public:
  // kInvalidArgument, naming `callee`, for too many arguments, unknown or repeated names.
  static Result<Bound> Make(std::string_view callee, const ParameterNames& names,
                            const Arguments& arguments);
  // For a callee that takes what comes; only all() is of use.
  static Bound Any(std::string_view callee, const Arguments& arguments);

  bool Has(size_t i) const { return values_[i].has_value(); }
  Value Or(size_t i, const Value& fallback) const { return values_[i].value_or(fallback); }
  // A failure that names the parameter where it was not given or has another type.
  Result<Value> Required(size_t i) const;
  Result<std::string_view> Text(size_t i) const;
  Result<std::string_view> TextOr(size_t i, std::string_view fallback) const;
  Result<int64_t> IntOr(size_t i, int64_t fallback) const;
  bool TruthOr(size_t i, bool fallback) const;
  const Arguments& all() const { return *all_; }
  std::string_view callee() const { return callee_; }

 private:
  std::string_view callee_;
  ParameterNames names_;
  std::array<std::optional<Value>, kParametersMax> values_;
  const Arguments* all_ = nullptr;
};

}  // namespace graft::jinja
