// The files of texts of a checkpoint that an adapter was merged into: as the base has them, with
// what the adapter says otherwise. Pure functions, but for the base's folder.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/adapter_text.h"
#include "base/status.h"
#include "model/config.h"

namespace graft {

// By their names in the folder, what they hold; nothing: such a file is not there. Files that are
// not named stay as they are. kInvalidArgument where the base's and the adapter's end tokens are
// more than a server takes, or a file of the base makes no sense.
using MergedTexts = std::map<std::string, std::optional<std::string>>;
Result<MergedTexts> MergeTexts(const std::string& model_dir, const ModelConfig& config,
                               const AdapterText& text);

// What of the adapter's texts was `written`, for people: "its chat template"; "" for nothing.
std::string TellTexts(const AdapterText& text, const MergedTexts& written);

}  // namespace graft
