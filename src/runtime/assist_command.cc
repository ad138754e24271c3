#include "runtime/assist_command.h"

#include <memory>

#include "executor/assist_worker.h"

namespace graft {

Command AssistCommand() {
  const auto options = std::make_shared<AssistProcessOptions>();  // lives as long as the command
  const auto row = [](const char* name, auto& value, const char* help) {
    return Option{.name = name, .target = Number(value), .help = help, .is_required = true};
  };
  return {.name = "assist-worker",
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

}  // namespace graft
