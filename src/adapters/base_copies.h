// Copies of the base's embedding and head. PEFT saves them beside an adapter if its targets name
// one of them, and where a trainer asked for them. Equal to the base's they say nothing, and are
// left out. Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace graft {

// The names of such tensors in an adapter's file, whatever they hold.
std::vector<std::string> BaseCopiesIn(const SafetensorsFile& file, const ModelConfig& model);

// OK: all of `copies` are the base's numbers, each as it is in one of both files' dtypes after
// rounding to it. kUnimplemented names one that is not, and where; `base_folder` has the base's
// checkpoint, "": it is not known.
Status CheckBaseCopies(const SafetensorsFile& file, const std::vector<std::string>& copies,
                       const ModelConfig& model, const std::string& base_folder);

// What people are told of them; "": there are none.
std::string TellBaseCopies(const std::vector<std::string>& copies);

}  // namespace graft
