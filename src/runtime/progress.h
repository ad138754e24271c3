// Progress of long work on stderr: a bar on a terminal, otherwise a line per tenth. A server's
// progress lines are lines of its log, with time and level. So are all of them if the log is JSON.
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace graft {

class ProgressBar {
 public:
  ProgressBar(std::string what, bool quiet);
  // 0 <= done <= total; the line ends when done reaches total. `note` stands behind the bar. Where
  // the total grows, what was shown does not go back.
  void Update(int64_t done, int64_t total, const std::string& note = "");

 private:
  const std::string what_;
  const bool quiet_;
  const bool is_terminal_;
  int last_percent_ = -1;
  size_t last_note_bytes_ = 0;
};

}  // namespace graft
