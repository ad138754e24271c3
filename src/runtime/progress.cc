#include "runtime/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/server_log.h"

namespace graft {

ProgressBar::ProgressBar(std::string what, bool quiet)
    : what_(std::move(what)),
      quiet_(quiet),
      is_terminal_(isatty(STDERR_FILENO) != 0 && !ServerLog::is_json()) {}

void ProgressBar::Update(int64_t done, int64_t total, const std::string& note) {
  if (quiet_ || total <= 0) return;
  const int percent = static_cast<int>(done * 100 / total);
  const int step = is_terminal_ ? 1 : 10;
  if (percent / step <= last_percent_ / step && last_percent_ >= 0) return;
  last_percent_ = percent;
  if (!is_terminal_) {
    const std::string line =
        what_ + " " + std::to_string(percent) + " %" + (note.empty() ? "" : "  " + note);
    if (ServerLog::is_there()) {
      LOG_INFO("{}", line);
    } else {
      std::fprintf(stderr, "%s\n", line.c_str());
    }
    return;
  }
  constexpr int kWidth = 30;
  const int filled = percent * kWidth / 100;
  // Blanks cover what a longer note has left.
  const size_t blanks = last_note_bytes_ > note.size() ? last_note_bytes_ - note.size() : 0;
  last_note_bytes_ = note.size();
  std::fprintf(stderr, "\r%s [%.*s%*s] %3d %%%s%s%*s%s", what_.c_str(), filled,
               "##############################", kWidth - filled, "", percent,
               note.empty() ? "" : "  ", note.c_str(), static_cast<int>(blanks), "",
               percent == 100 ? "\n" : "");
  std::fflush(stderr);
}

}  // namespace graft
