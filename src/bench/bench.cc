#include "bench/bench.h"

#include "bench/commands.h"

namespace graft {

// GRAFT_ADAPTERS is a server's folder, and a bench's --adapters a number: variables of their own.
Command BenchCommand() {
  Command bench = {
      .name = "bench",
      .help = "Measure kernels and serving on this machine.",
      .subcommands = {BenchAdaptersCommand(), BenchAssistCommand(), BenchExchangeCommand(),
                      BenchOpsCommand(), BenchParallelCommand(), BenchServeCommand(),
                      BenchStepCommand()}};
  for (Command& one : bench.subcommands) one.environment_prefix = "GRAFT_BENCH_";
  return bench;
}

}  // namespace graft
