// graft assist-worker: one worker process of the CPU assist, started by the server.
#include "executor/assist_worker.h"

#include <memory>

#include "cli/commands.h"

namespace graft {

void AddAssistWorkerCommand(CLI::App& app, CommandRun& run) {
  CLI::App* command = app.add_subcommand("assist-worker", "A worker process of the server.");
  command->group("");                                       // not in the help
  auto options = std::make_shared<AssistProcessOptions>();  // lives as long as the parser and `run`
  command->add_option("--exchange", options->exchange, "descriptor of the exchange")->required();
  command->add_option("--store", options->store, "descriptor of the host store")->required();
  command->add_option("--worker", options->worker, "its number")->required();
  command->add_option("--parent", options->parent, "the server's process")->required();
  command->callback([options, &run] { run = [options] { return RunAssistProcess(*options); }; });
}

}  // namespace graft
