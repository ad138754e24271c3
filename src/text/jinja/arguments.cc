#include "text/jinja/arguments.h"

#include <string>

namespace graft::jinja {

Result<Bound> Bound::Make(std::string_view callee, const ParameterNames& names,
                          const Arguments& arguments) {
  Bound bound = Any(callee, arguments);
  bound.names_ = names;
  const std::string who(callee);
  size_t num_names = 0;
  while (num_names < kParametersMax && !names[num_names].empty()) ++num_names;
  if (arguments.positional.size() > num_names) {
    return TypeError("'" + who + "' takes at most " + std::to_string(num_names) +
                     " arguments, it was given " + std::to_string(arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.values_[i] = arguments.positional[i];
  }
  for (const Argument& argument : arguments.keyword) {
    size_t i = 0;
    while (i < num_names && names[i] != argument.name) ++i;
    if (i == num_names) {
      return TypeError("'" + who + "' has no argument '" + std::string(argument.name) + "'");
    }
    if (bound.values_[i].has_value()) {
      return TypeError("'" + who + "' was given '" + std::string(argument.name) + "' twice");
    }
    bound.values_[i] = argument.value;
  }
  return bound;
}

Bound Bound::Any(std::string_view callee, const Arguments& arguments) {
  Bound bound;
  bound.callee_ = callee;
  bound.all_ = &arguments;
  return bound;
}

Result<Value> Bound::Required(size_t i) const {
  if (Has(i)) return *values_[i];
  return TypeError("'" + std::string(callee_) + "' needs the argument '" + std::string(names_[i]) +
                   "'");
}

Result<std::string_view> Bound::Text(size_t i) const {
  ASSIGN_OR_RETURN(const Value value, Required(i));
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return UndefinedError(value);
  return TypeError("'" + std::string(callee_) + "' needs a string as '" + std::string(names_[i]) +
                   "', not '" + std::string(TypeName(value)) + "'");
}

Result<std::string_view> Bound::TextOr(size_t i, std::string_view fallback) const {
  if (!Has(i)) return fallback;
  return Text(i);
}

Result<int64_t> Bound::IntOr(size_t i, int64_t fallback) const {
  if (!Has(i)) return fallback;
  if (values_[i]->is_integral()) return values_[i]->integer();
  if (values_[i]->is_undefined()) return UndefinedError(*values_[i]);
  return TypeError("'" + std::string(callee_) + "' needs an integer as '" + std::string(names_[i]) +
                   "', not '" + std::string(TypeName(*values_[i])) + "'");
}

bool Bound::TruthOr(size_t i, bool fallback) const {
  return Has(i) ? Truth(*values_[i]) : fallback;
}

}  // namespace graft::jinja
