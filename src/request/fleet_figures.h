// The runners behind a server, and how many there should be. Plain data; any thread.
#pragma once

#include <cstdint>

namespace graft {

struct FleetFigures {
  int32_t runners = 0;
  int32_t runners_wanted = 0;
  int32_t runners_spare = 0;     // that may be taken away
  double startup_seconds = 0.0;  // that is counted with
};

}  // namespace graft
