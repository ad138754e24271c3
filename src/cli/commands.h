// The subcommands of graft, one file each. Each Add... function puts its subcommand with its
// options under `app`; when the command line picks it, `run` is set to what it does. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/status.h"

namespace graft {

using CommandRun = std::function<Status()>;

void AddServeCommand(CLI::App& app, CommandRun& run);
void AddGenerateCommand(CLI::App& app, CommandRun& run);
void AddAdaptersCommand(CLI::App& app, CommandRun& run);
void AddBenchCommand(CLI::App& app, CommandRun& run);
// Not for people: what the server starts as its worker processes.
void AddAssistWorkerCommand(CLI::App& app, CommandRun& run);

}  // namespace graft
