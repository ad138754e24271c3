// What families share in reading config.json's layers: how far each attends, and what it activates.
// Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "model/config_fields.h"

namespace graft {

// Bounds of config.json's numbers that several readers need.
inline constexpr int64_t kConfigContextMax = int64_t{1} << 24;
// HF's, of those classes that have a window.
inline constexpr int64_t kConfigWindowAbsent = 4096;

// Fills config.layers, ropes, rotary_dim and what goes with them (embeddings' and logits' scales),
// as the family reads them. Architecture and dimensions are in `config` already.
Status ReadLayers(const ConfigFields& fields, ModelConfig& config);

// sliding_window, 0 where the model has none. A field that is null is meant; one that is absent has
// HF's default.
Result<int32_t> ReadWindow(const ConfigFields& fields);
// The same of families that need use_sliding_window for it.
Result<int32_t> ReadUsedWindow(const ConfigFields& fields);
// Refuses a sliding_window: for families without windows.
Status RefuseWindow(const ConfigFields& fields, const ModelConfig& config);

// Gives this window to the layers that layer_types lists as sliding; where it is absent, to those
// that `slides` names ([num_layers]).
Status SetWindows(const ConfigFields& fields, int32_t window, const std::vector<bool>& slides,
                  ModelConfig& config);
// For `slides`: of all layers but every `interval`th, which attends fully.
std::vector<bool> SlidesButEvery(int32_t interval, int32_t num_layers);
// The same where by default all layers slide if there is a window.
Status SetWindowOfAll(const ConfigFields& fields, int32_t window, ModelConfig& config);
// The same where by default the first max_window_layers layers attend fully.
Status SetWindowOfLast(const ConfigFields& fields, int32_t window, ModelConfig& config);

// hidden_act is SiLU.
Status CheckSilu(const ConfigFields& fields);
// The activation of an MLP without a gate, which the layers get: GELU's forms and relu, by HF's
// names.
Status ReadPlainActivation(const ConfigFields& fields, std::string_view name,
                           std::string_view absent, ModelConfig& config);
// hidden_activation and hidden_act are GeLU's tanh form, which the layers get. `older`: what
// hidden_act says for it, too.
Status ReadGeluTanh(const ConfigFields& fields, ModelConfig& config, std::string_view older = "");

}  // namespace graft
