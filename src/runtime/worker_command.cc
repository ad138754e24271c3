#include "runtime/worker_command.h"

#include <cstdlib>
#include <memory>

#include "assist/assist_worker.h"

namespace graft {
namespace {

constexpr char kWorkerName[] = "assist-worker";

}  // namespace

Command WorkerCommand() {
  const auto options = std::make_shared<AssistProcessOptions>();  // lives as long as the command
  const auto row = [](const char* name, auto& value, const char* help) {
    return Option{.name = name, .target = Number(value), .help = help, .is_required = true};
  };
  return {.name = kWorkerName,
          .help = "A worker process of the server.",
          .groups = {{"Options",
                      {row("exchange", options->exchange, "descriptor of the exchange"),
                       row("store", options->store, "descriptor of the host store"),
                       row("worker", options->worker, "its number"),
                       row("parent", options->parent, "the server's process")}}},
          .run = [options] { return RunAssistProcess(*options); },
          .is_hidden = true,
          .environment_prefix = ""};
}

std::vector<std::string> WorkerProgram() {
  // A launcher that brings its own loader names itself: /proc/self/exe is that loader then.
  const char* launcher = std::getenv("GRAFT_LAUNCHER");
  return {launcher == nullptr ? "/proc/self/exe" : launcher, kWorkerName};
}

}  // namespace graft
