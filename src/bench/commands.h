// The subcommands of graft bench, one file each. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

void AddBenchAdaptersCommand(CLI::App& bench, CommandRun& run);
void AddBenchAssistCommand(CLI::App& bench, CommandRun& run);
void AddBenchOpsCommand(CLI::App& bench, CommandRun& run);
void AddBenchServeCommand(CLI::App& bench, CommandRun& run);
void AddBenchStepCommand(CLI::App& bench, CommandRun& run);

}  // namespace graft
