#include "cli/start_checks.h"

#include "engine/folder_jail.h"

namespace graft {

Result<ModelConfig> CheckFolders(const RuntimeOptions& options) {
  if (options.model.empty()) {
    return InvalidArgumentError("which model? --model DIR, an HF folder (demo/base is one)");
  }
  ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(options.model));
  if (!options.adapters.empty()) {
    RETURN_IF_ERROR(FolderJail(options.adapters, options.adapters_roots).Resolve(".").status());
  }
  return config;
}

}  // namespace graft
