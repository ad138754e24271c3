// Checks that commands make before they read a model's weights, because reading a large model takes
// minutes. Main thread.
#pragma once

#include "base/status.h"
#include "model/config.h"
#include "runtime/runtime_options.h"

namespace graft {

// The model's shape, once its folder and that of the adapters are there.
Result<ModelConfig> CheckFolders(const RuntimeOptions& options);

}  // namespace graft
