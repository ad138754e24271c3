// What commands that serve look at before they read a model's weights, which takes minutes where it
// is large. Main thread.
#pragma once

#include "base/status.h"
#include "model/config.h"
#include "runtime/runtime_options.h"

namespace graft {

// The model's shape, once its folder and that of the adapters are there.
Result<ModelConfig> CheckFolders(const RuntimeOptions& options);

}  // namespace graft
