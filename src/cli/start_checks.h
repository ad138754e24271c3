// Checks that commands make before they read a model's weights, because reading a large model takes
// minutes. Main thread.
#pragma once

#include <string>
#include <vector>

#include "base/server_log.h"
#include "base/status.h"
#include "model/config.h"
#include "runtime/runtime_options.h"

namespace graft {

// The model's shape, once its folder and that of the adapters are there.
Result<ModelConfig> CheckFolders(const RuntimeOptions& options);

// Whether the folder of the adapters has each of these names; "" and the base model's name are
// none. kNotFound tells names that are near; why a folder is refused is its own error. A registry
// may know others, so with one nothing is checked.
Status CheckAdapterNames(const RuntimeOptions& options, const std::vector<std::string>& names);

// `status`, for checks from before the log begins: where it is an error, a log begins and ends, so
// that its words will have the form that was asked for.
Status InLogsForm(const ServerLogOptions& log, const Status& status);

}  // namespace graft
