// What a hostile simulation finds wrong, and what it did: a line an event, and a hash of all lines.
// One thread.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sim/virtual_time.h"

namespace graft {

class Findings {
 public:
  // `keeps_lines`: for readers of what happened.
  Findings(const VirtualClock& clock, bool keeps_lines)
      : clock_(clock), keeps_lines_(keeps_lines) {}

  template <typename... Args>
  void Note(fmt::format_string<Args...> format, Args&&... args) {
    const std::string line = fmt::format("{:.6f} ", NsToSeconds(clock_.NowNs())) +
                             Text(fmt::string_view(format), args...);
    for (const char c : line) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * kPrime;
    if (keeps_lines_) lines_.push_back(line);
  }
  // Something does not hold. The first one counts.
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    const std::string what = Text(fmt::string_view(format), args...);
    Note("FOUND {}", what);
    if (found_.empty()) found_ = what;
  }

  const std::string& found() const { return found_; }
  uint64_t hash() const { return hash_; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  static constexpr uint64_t kPrime = 0x100000001b3ULL;  // FNV-1a

  template <typename... Args>
  static std::string Text(fmt::string_view format, const Args&... args) {
    return fmt::vformat(format, fmt::make_format_args(args...));
  }

  const VirtualClock& clock_;
  const bool keeps_lines_;
  std::string found_;
  uint64_t hash_ = 0xcbf29ce484222325ULL;
  std::vector<std::string> lines_;
};

}  // namespace graft
