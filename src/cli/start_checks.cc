#include "cli/start_checks.h"

#include <algorithm>

#include "base/nearest_names.h"
#include "engine/folder_jail.h"
#include "model/model_folder.h"

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

Status CheckAdapterNames(const RuntimeOptions& options, const std::vector<std::string>& names) {
  if (!options.registry.empty()) return OkStatus();
  std::vector<std::string> known = {options.model_name.empty() ? ModelNameOf(options.model)
                                                               : options.model_name};
  if (!options.adapters.empty()) {
    ASSIGN_OR_RETURN(const FolderJail::Found found,
                     FolderJail(options.adapters, options.adapters_roots).Find());
    for (const FolderJail::Folder& folder : found.folders) known.push_back(folder.name);
    for (const FolderJail::Refused& refused : found.refused) {
      if (std::ranges::find(names, refused.name) == names.end()) continue;
      return refused.why.WithContext("adapter '" + refused.name + "'");
    }
  }
  for (const std::string& name : names) {
    if (name.empty() || std::ranges::find(known, name) != known.end()) continue;
    const std::string near = NearestNames(name, known);
    return NotFoundError("there is no adapter '" + name + "'" +
                         (near.empty() ? "" : "; did you mean " + near + "?") +
                         (options.adapters.empty() ? "; --adapters DIR names their folder" : ""));
  }
  return OkStatus();
}

Status InLogsForm(const ServerLogOptions& log, const Status& status) {
  if (!status.ok()) RETURN_IF_ERROR(ServerLog::Begin(log).status());
  return status;
}

}  // namespace graft
