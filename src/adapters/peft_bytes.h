// An adapter's two files as PEFT writes them, whatever program wrote the folder. Identity, checks
// and merging know these bytes alone. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/file_bytes.h"

namespace graft {

struct PeftBytes {
  std::string config;  // adapter_config.json
  FileBytes weights;   // adapter_model.safetensors
};

// Whether the files are of another form, by the config and how the file of weights begins: its
// first kWeightsBeginBytes, or all of a shorter file.
inline constexpr int64_t kWeightsBeginBytes = 512;
bool IsOtherForm(std::string_view config, std::string_view weights_begin);

// What PEFT would have written, of files of another form. `label` stands for the file
// of weights in errors, which say what cannot be read.
Result<PeftBytes> ToPeftBytes(std::string_view config, FileBytes weights, const std::string& label);

}  // namespace graft
