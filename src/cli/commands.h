// The subcommands of graft, one file each: names, options and what to run. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

Command ServeCommand();
Command RunnerCommand();
Command FrontendCommand();
Command ClusterCommand();
Command GenerateCommand();
Command LearnCommand();
Command AdaptersCommand();
Command QuantizeCommand();
Command FetchCommand();
Command SimulateCommand();

// All subcommands, profile and help included.
Command GraftProgram();

}  // namespace graft
