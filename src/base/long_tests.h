// How long tests take. `make test` runs a few of many random seeds, or smaller sizes, where more of
// them only repeat; `make test-all` sets GRAFT_LONG_TESTS and runs them all. For tests alone. Any
// thread.
#pragma once

#include <cstdlib>

namespace graft {

inline bool LongTests() {
  const char* const setting = std::getenv("GRAFT_LONG_TESTS");
  return setting != nullptr && *setting != '\0';
}

}  // namespace graft
