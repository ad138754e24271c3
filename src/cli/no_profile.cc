// graft profile, graft doctor and graft simulate where they are left out (GRAFT_PROFILE=OFF).
#include "cli/commands.h"
#include "doctor/doctor.h"
#include "options/left_out.h"
#include "profile/profile.h"

namespace graft {

Command ProfileCommand() { return LeftOutCommand("profile", "Measure what steps take"); }
Command DoctorCommand() { return LeftOutCommand("doctor", "Check this machine's ops"); }
Command SimulateCommand() {
  return LeftOutCommand("simulate", "Serve a workload by a simulated cluster");
}

}  // namespace graft
