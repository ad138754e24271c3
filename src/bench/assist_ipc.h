// `graft-bench assist --ipc`: rows handed to worker processes and their answers taken back, through
// shared memory and through UNIX domain sockets (CaraServe, Figure 17). Needs no GPU. Main thread,
// before the process has any other: it forks.
#pragma once

#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/config.h"

namespace graft {

struct AssistIpcOptions {
  int rows = 128;  // of q, k and v's input, of one adapter
  int rank = 64;
  int repeats = 30;
  std::vector<int> workers;
};

Result<OrderedJson> RunAssistIpc(const ModelConfig& config, const AssistIpcOptions& options);

}  // namespace graft
