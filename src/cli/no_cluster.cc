// graft runner, frontend and cluster where they are left out (GRAFT_CLUSTER=OFF).
#include "cli/commands.h"
#include "options/left_out.h"

namespace graft {

Command RunnerCommand() { return LeftOutCommand("runner", "Serve a model to frontends"); }
Command FrontendCommand() { return LeftOutCommand("frontend", "Serve runners over HTTP"); }
Command ClusterCommand() { return LeftOutCommand("cluster", "Start and change a cluster"); }

}  // namespace graft
