// Patterns of names: "*" stands for any characters, none included. Pure; any thread.
#pragma once

#include <string_view>

namespace graft {

bool MatchesPattern(std::string_view pattern, std::string_view name);

}  // namespace graft
