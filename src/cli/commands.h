// The subcommands of graft, one file each: names, options and what to run. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

Command ServeCommand();
Command GenerateCommand();
Command AdaptersCommand();
// Not for people: what the server starts as its worker processes.
Command AssistCommand();

// All of them, and bench and help.
Command GraftProgram();

}  // namespace graft
