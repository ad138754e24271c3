// `graft-bench assist --ipc` measures how long it takes to hand rows to worker processes and to get
// their answers, through shared memory and through UNIX domain sockets (CaraServe, Figure 17). It
// needs no GPU. It forks, so it runs on the main thread before the process has any other.
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
