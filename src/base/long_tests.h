// How long tests run. `make test` runs only a few of many random seeds, or smaller sizes, if more
// would only repeat the same. `make test-all` sets GRAFT_LONG_TESTS, which runs all of them. For
// tests only. Any thread.
#pragma once

#include <cstdlib>

namespace graft {

inline bool LongTests() {
  const char* const setting = std::getenv("GRAFT_LONG_TESTS");
  return setting != nullptr && *setting != '\0';
}

}  // namespace graft
