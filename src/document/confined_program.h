// Runs a program on untrusted data within limits. The program gets its input on its standard input.
// Its memory, time, open files and output are limited. It may write no file, and gets no
// descriptor, variable or socket of this process. Any thread; several at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace graft {

struct ProgramLimits {
  int64_t memory_bytes = int64_t{1} << 30;
  int cpu_seconds = 30;
  int seconds = 60;  // of the wall's clock
  int files = 32;    // open at once
  int64_t output_bytes = int64_t{8} << 20;
};

struct ProgramEnd {
  enum class Kind { kExited, kSignal, kTooLong, kTooMuch, kUnwanted };
  Kind kind = Kind::kExited;
  int code = 0;  // of its exit, or the signal
  std::string output;
  std::string complaint;  // the first line on its standard error, cut
};

// `words`: the program, found by PATH if it has no /, and its arguments. `is_wanted` is asked
// several times a second. kNotFound: there is no such program. The start takes a moment, however
// much memory this process has. If the system supports it, the program is also kept from sockets,
// from other processes and their /proc, and from changing any file.
Result<ProgramEnd> RunConfined(const std::vector<std::string>& words, const std::string& input,
                               const ProgramLimits& limits,
                               const std::function<bool()>& is_wanted = nullptr);

}  // namespace graft
