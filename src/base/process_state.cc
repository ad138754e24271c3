#include "base/process_state.h"

#include <fstream>
#include <string>

namespace graft {

ProcessState StateOfProcess(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return ProcessState::kEnded;
  // Its name, in brackets, may have brackets, too.
  const size_t end = text.rfind(')');
  if (end == std::string::npos || end + 2 >= text.size()) return ProcessState::kRuns;
  switch (text[end + 2]) {
    case 'Z':
    case 'X':
      return ProcessState::kEnded;
    case 'T':
    case 't':
      return ProcessState::kStopped;
    default:
      return ProcessState::kRuns;
  }
}

}  // namespace graft
