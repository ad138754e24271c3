// graft bench: everything that it measures, behind one function, so that a program without it is a
// matter of linking. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

// Puts `bench` with its subcommands under `app`.
void AddBenchCommand(CLI::App& app, CommandRun& run);

}  // namespace graft
