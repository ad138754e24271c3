// The subcommands of graft, one file each. Each Add... function puts its subcommand with its
// options under `app`; when the command line picks it, `run` is set to what it does. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

void AddServeCommand(CLI::App& app, CommandRun& run);
void AddGenerateCommand(CLI::App& app, CommandRun& run);
void AddAdaptersCommand(CLI::App& app, CommandRun& run);
// Not for people: what the server starts as its worker processes.
void AddAssistWorkerCommand(CLI::App& app, CommandRun& run);

}  // namespace graft
