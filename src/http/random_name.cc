#include "http/random_name.h"

#include <cstdio>

#include "base/random.h"

namespace graft {

std::string RandomName(const char* prefix) {
  char digits[33];
  std::snprintf(digits, sizeof(digits), "%016llx%016llx",
                static_cast<unsigned long long>(RandomSeed()),
                static_cast<unsigned long long>(RandomSeed()));
  return std::string(prefix) + digits;
}

}  // namespace graft
