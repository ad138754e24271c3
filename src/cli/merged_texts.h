// The files of texts of a checkpoint that an adapter was merged into: as the base has them, with
// what the adapter says otherwise. Pure functions, but for the base's folder.
#pragma once

#include <string>

#include "base/adapter_text.h"
#include "base/status.h"
#include "cli/derived_model.h"
#include "model/config.h"

namespace graft {

// What the files of the merged folder hold, by name. Files that are not named stay as they are.
// kInvalidArgument: base and adapter together have more end tokens than a server takes, or a file
// of the base makes no sense.
using MergedTexts = ChangedTexts;
Result<MergedTexts> MergeTexts(const std::string& model_dir, const ModelConfig& config,
                               const AdapterText& text);

// What of the adapter's texts was `written`, for people: "its chat template"; "" for nothing.
std::string TellTexts(const AdapterText& text, const MergedTexts& written);

}  // namespace graft
