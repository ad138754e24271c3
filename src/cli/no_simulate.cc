// graft simulate where it is left out (GRAFT_BENCH=OFF).
#include "cli/commands.h"
#include "options/left_out.h"

namespace graft {

Command SimulateCommand() {
  return LeftOutCommand("simulate", "Serve a workload by a simulated cluster");
}

}  // namespace graft
