// One progress line on stderr for long work: a bar on a terminal, a line per tenth elsewhere. One
// thread.
#pragma once

#include <cstdint>
#include <string>

namespace graft {

class ProgressBar {
 public:
  ProgressBar(std::string what, bool quiet);
  // 0 <= done <= total; the line ends when done reaches total.
  void Update(int64_t done, int64_t total);

 private:
  const std::string what_;
  const bool quiet_;
  const bool is_terminal_;
  int last_percent_ = -1;
};

}  // namespace graft
