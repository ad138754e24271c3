#include "runtime/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace graft {

ProgressBar::ProgressBar(std::string what, bool quiet)
    : what_(std::move(what)), quiet_(quiet), is_terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressBar::Update(int64_t done, int64_t total) {
  if (quiet_ || total <= 0) return;
  const int percent = static_cast<int>(done * 100 / total);
  const int step = is_terminal_ ? 1 : 10;
  if (percent / step == last_percent_ / step && last_percent_ >= 0) return;
  last_percent_ = percent;
  if (!is_terminal_) {
    std::fprintf(stderr, "%s %d %%\n", what_.c_str(), percent);
    return;
  }
  constexpr int kWidth = 30;
  const int filled = percent * kWidth / 100;
  std::fprintf(stderr, "\r%s [%.*s%*s] %3d %%%s", what_.c_str(), filled,
               "##############################", kWidth - filled, "", percent,
               percent == 100 ? "\n" : "");
  std::fflush(stderr);
}

}  // namespace graft
