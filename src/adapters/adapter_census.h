// A census of adapters: lines of JSON, each an adapter's config with its base's class, tried
// without any weights. It says which adapters of a collection could be served, and why the others
// could not. Pure function, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace graft {

// Layers of a base that the census knows by its class alone. An adapter of a later layer is
// refused.
inline constexpr int32_t kCensusLayers = 256;
inline constexpr int64_t kCensusLineBytesMax = int64_t{4} << 20;

// What came of one line.
struct CensusVerdict {
  std::string name;        // base_model_name_or_path, or ""
  std::string base_class;  // HF's class, or ""
  std::string base_quant;  // how the named base's weights are quantised, or "": they are not
  Status status;           // ok: it can be served, where the base is quantised on its original
};

// A line is an object: the keys of adapter_config.json, and of the base either "base_class", HF's
// class, for which sizes are made up, or "base_config", its config.json. "base_quant" may name a
// quantisation. What else a census keeps about an adapter is left alone (kCensusKeys in the .cc).
// A key that only says whether another was there ("rank_pattern": false) counts as absent.
// kInvalidArgument in `status` for a line that is no such object; else ParseModelConfig's,
// ParsePeftConfig's or ResolveLoraTargets'.
CensusVerdict TryCensusLine(std::string_view line);

}  // namespace graft
