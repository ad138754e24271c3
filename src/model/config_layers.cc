#include "model/config_layers.h"

#include <string>
#include <string_view>

#include "base/json.h"
#include "model/family.h"

namespace graft {

Result<int32_t> ReadWindow(const ConfigFields& fields) {
  const int64_t absent = fields.Mentions("sliding_window") ? 0 : kConfigWindowAbsent;
  return fields.Int("sliding_window", 1, kConfigContextMax, absent);
}

Result<int32_t> ReadUsedWindow(const ConfigFields& fields) {
  ASSIGN_OR_RETURN(const bool used, fields.Bool("use_sliding_window", false));
  if (!used) return 0;
  return ReadWindow(fields);
}

Status RefuseWindow(const ConfigFields& fields, const ModelConfig& config) {
  const Json* window = fields.Find("sliding_window");
  if (window == nullptr) return OkStatus();
  return fields.Unsupported("sliding_window", *window,
                            "null for " + std::string(ArchitectureName(config.architecture)));
}

Status SetWindows(const ConfigFields& fields, int32_t window, const std::vector<bool>& slides,
                  ModelConfig& config) {
  const Json* types = fields.Find("layer_types");
  if (types != nullptr &&
      (!types->is_array() || types->size() != static_cast<size_t>(config.num_layers))) {
    return fields.Wrong("layer_types", *types, "a list of num_hidden_layers strings");
  }
  for (int32_t i = 0; i < config.num_layers; ++i) {
    bool is_sliding = slides[i];
    const std::string name = "layer_types[" + std::to_string(i) + "]";
    if (types != nullptr) {
      const Json& listed = (*types)[i];
      if (listed != "full_attention" && listed != "sliding_attention") {
        return fields.Unsupported(name, listed, "\"full_attention\", \"sliding_attention\"");
      }
      is_sliding = listed == "sliding_attention";
    }
    if (is_sliding && window == 0) {
      return InvalidArgumentError(name +
                                  " is \"sliding_attention\" but sliding_window gives no size");
    }
    config.layers[i].window = is_sliding ? window : 0;
  }
  return OkStatus();
}

std::vector<bool> SlidesButEvery(int32_t interval, int32_t num_layers) {
  std::vector<bool> slides(num_layers);
  for (int32_t i = 0; i < num_layers; ++i) slides[i] = (i + 1) % interval != 0;
  return slides;
}

Status SetWindowOfAll(const ConfigFields& fields, int32_t window, ModelConfig& config) {
  return SetWindows(fields, window, std::vector<bool>(config.num_layers, window != 0), config);
}

Status SetWindowOfLast(const ConfigFields& fields, int32_t window, ModelConfig& config) {
  std::vector<bool> slides(config.num_layers, false);
  if (window != 0) {
    ASSIGN_OR_RETURN(const int32_t num_full, fields.Int("max_window_layers", 0, 1 << 20, 28));
    for (int32_t i = num_full; i < config.num_layers; ++i) slides[i] = true;
  }
  return SetWindows(fields, window, slides, config);
}

Status CheckSilu(const ConfigFields& fields) {
  ASSIGN_OR_RETURN(const std::string act, fields.String("hidden_act", "silu"));
  if (act == "silu" || act == "swish") return OkStatus();
  return fields.Unsupported("hidden_act", Json(act), "silu");
}

Status ReadPlainActivation(const ConfigFields& fields, std::string_view name,
                           std::string_view absent, ModelConfig& config) {
  struct Named {
    std::string_view name;
    Activation activation;
  };
  constexpr Named kAll[] = {{"gelu", Activation::kGelu},
                            {"gelu_python", Activation::kGelu},
                            {"gelu_new", Activation::kGeluTanh},
                            {"gelu_fast", Activation::kGeluTanh},
                            {"gelu_pytorch_tanh", Activation::kGeluTanh},
                            {"relu", Activation::kRelu}};
  ASSIGN_OR_RETURN(const std::string act, fields.String(name, std::string(absent)));
  for (const Named& named : kAll) {
    if (named.name != act) continue;
    for (LayerSpec& layer : config.layers) layer.activation = named.activation;
    return OkStatus();
  }
  return fields.Unsupported(name, Json(act),
                            "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, gelu_python, relu");
}

Status ReadGeluTanh(const ConfigFields& fields, ModelConfig& config, std::string_view older) {
  constexpr char kGelu[] = "gelu_pytorch_tanh";
  for (const std::string_view name : {"hidden_activation", "hidden_act"}) {
    ASSIGN_OR_RETURN(const std::string act, fields.String(name, kGelu));
    if (!older.empty() && name == "hidden_act" && act == older) continue;
    if (act != kGelu) return fields.Unsupported(name, Json(act), kGelu);
  }
  for (LayerSpec& layer : config.layers) layer.activation = Activation::kGeluTanh;
  return OkStatus();
}

Status ReadLayers(const ConfigFields& fields, ModelConfig& config) {
  const ModelFamily& family = FamilyOf(config.architecture);
  config.SetPlainLayers();
  RETURN_IF_ERROR(family.read_layers(fields, config));
  ASSIGN_OR_RETURN(const bool norms_qk, fields.Bool("use_qk_norm", family.norms_qk));
  if (norms_qk != family.norms_qk) {
    return fields.Unsupported("use_qk_norm", Json(norms_qk),
                              "true for " + FamiliesThat([](const ModelFamily& have) {
                                return have.norms_qk;
                              }) + ", false for the others");
  }
  for (LayerSpec& layer : config.layers) layer.qk_norm = norms_qk;
  return OkStatus();
}

}  // namespace graft
