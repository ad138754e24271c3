#include "bench/bench.h"

#include "bench/commands.h"

namespace graft {

void AddBenchCommand(CLI::App& app, CommandRun& run) {
  CLI::App* command = app.add_subcommand("bench", "Measure kernels and serving on this machine.");
  command->require_subcommand(1);
  AddBenchAdaptersCommand(*command, run);
  AddBenchAssistCommand(*command, run);
  AddBenchOpsCommand(*command, run);
  AddBenchServeCommand(*command, run);
  AddBenchStepCommand(*command, run);
}

}  // namespace graft
