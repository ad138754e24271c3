#include "bench/bench.h"

#include "bench/commands.h"

namespace graft {

std::vector<Option> BenchModelOptionRows(std::string& shape, RuntimeOptions& runtime) {
  std::vector<Option> rows = ModelOptionRows(runtime);
  rows.push_back({"shape", Text(shape),
                  "an HF config.json whose shape gets random weights, instead of --model"});
  return rows;
}

Option JsonOptionRow(std::string& path) {
  return {"json", Text(path), "write the figures to this file, too"};
}

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
