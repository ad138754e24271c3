// Python's `re` over PCRE2, for the regexes in configs of adapters and of quantised models, matched
// against module paths (ASCII, one line). Constructs that the two read differently, or that Python
// does not have, are refused by name, so a pattern that compiles here means what PEFT, or the
// library that quantised, meant. Untrusted patterns are bounded in length and in matching steps.
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace graft {

inline constexpr size_t kRegexBytesMax = 4096;

class PythonRegex {
 public:
  // `steps_max` bounds the work of one match.
  static Result<PythonRegex> Compile(std::string_view pattern, uint32_t steps_max);

  PythonRegex(PythonRegex&&) noexcept;
  PythonRegex& operator=(PythonRegex&&) noexcept;
  ~PythonRegex();

  // re.fullmatch and re.match. kInvalidArgument past the step limit.
  Result<bool> FullMatch(std::string_view subject) const;
  Result<bool> PrefixMatch(std::string_view subject) const;
  // The text of a named group after a match that succeeded; empty if it took no part.
  std::optional<std::string_view> Group(const char* name, std::string_view subject) const;

 private:
  struct State;
  explicit PythonRegex(std::unique_ptr<State> state);
  Result<bool> Match(std::string_view subject, uint32_t options) const;

  std::unique_ptr<State> state_;
};

}  // namespace graft
