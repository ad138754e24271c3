// The subcommands of graft-bench, one file each. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

Command BenchAdaptersCommand();
Command BenchAssistCommand();
Command BenchExchangeCommand();
Command BenchOpsCommand();
Command BenchParallelCommand();
Command BenchServeCommand();
Command BenchStepCommand();

// All of them, and help.
Command BenchProgram();

}  // namespace graft
