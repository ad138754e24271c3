// Names for what is told apart by its name alone: requests, answers, their parts. Any thread.
#pragma once

#include <string>

namespace graft {

// "prefix" and 32 random hexadecimal digits.
std::string RandomName(const char* prefix);

}  // namespace graft
