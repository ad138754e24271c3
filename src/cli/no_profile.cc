// graft profile and graft simulate where they are left out (GRAFT_PROFILE=OFF).
#include "cli/commands.h"
#include "options/left_out.h"
#include "profile/profile.h"

namespace graft {

Command ProfileCommand() { return LeftOutCommand("profile", "Measure what steps take"); }
Command SimulateCommand() {
  return LeftOutCommand("simulate", "Serve a workload by a simulated cluster");
}

}  // namespace graft
