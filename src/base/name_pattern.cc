#include "base/name_pattern.h"

namespace graft {

bool MatchesPattern(std::string_view pattern, std::string_view name) {
  size_t at = 0, in_name = 0, star = std::string_view::npos, resume = 0;
  while (in_name < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = in_name;
    } else if (at < pattern.size() && pattern[at] == name[in_name]) {
      ++at;
      ++in_name;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in_name = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

}  // namespace graft
