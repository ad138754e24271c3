// graft-bench: its subcommands together.
#include "bench/bench_commands.h"
#include "options/help.h"
#include "runtime/worker_command.h"

namespace graft {

// GRAFT_ADAPTERS is a server's folder, and a bench's --adapters a number: variables of their own.
Command BenchProgram() {
  Command program = {
      .name = "graft-bench",
      .help = "Measure kernels and serving on this machine.",
      .subcommands = {BenchAdaptersCommand(), BenchAssistCommand(), BenchExchangeCommand(),
                      BenchOpsCommand(), BenchParallelCommand(), BenchServeCommand(),
                      BenchStepCommand()}};
  for (Command& one : program.subcommands) one.environment_prefix = "GRAFT_BENCH_";
  program.subcommands.push_back(WorkerCommand());
  program.subcommands.push_back(HelpCommand(BenchProgram, "graft-bench help step"));
  return program;
}

}  // namespace graft
