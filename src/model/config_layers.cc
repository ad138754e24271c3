#include "model/config_layers.h"

#include <cmath>
#include <string>
#include <string_view>

#include "base/json.h"

namespace graft {
namespace {

constexpr int64_t kDefaultWindow = 4096;  // HF's, of those classes that have a window
constexpr double kThetaMax = 1e15;

bool IsGemma(Architecture architecture) {
  return architecture == Architecture::kGemma2 || architecture == Architecture::kGemma3;
}

// The window that sliding layers have, 0 where the model has none.
Result<int32_t> ReadWindow(const ConfigFields& fields, Architecture architecture) {
  // A field that is null is meant, one that is absent has HF's default.
  const int64_t absent = fields.Mentions("sliding_window") ? 0 : kDefaultWindow;
  switch (architecture) {
    case Architecture::kLlama:
      if (const Json* window = fields.Find("sliding_window"); window != nullptr) {
        return fields.Unsupported("sliding_window", *window, "null for LlamaForCausalLM");
      }
      return 0;
    case Architecture::kPhi3:
      return fields.Int("sliding_window", 1, kConfigContextMax, 0);
    case Architecture::kMistral:
    case Architecture::kGemma2:
    case Architecture::kGemma3:
      return fields.Int("sliding_window", 1, kConfigContextMax, absent);
    case Architecture::kQwen2:
    case Architecture::kQwen3: {
      ASSIGN_OR_RETURN(const bool used, fields.Bool("use_sliding_window", false));
      if (!used) return 0;
      return fields.Int("sliding_window", 1, kConfigContextMax, absent);
    }
  }
  return 0;
}

// Which layers slide where the config does not list them.
Result<std::vector<bool>> DefaultSliding(const ConfigFields& fields, const ModelConfig& config,
                                         int32_t window) {
  std::vector<bool> slides(config.num_layers, window != 0);
  switch (config.architecture) {
    case Architecture::kQwen2:
    case Architecture::kQwen3: {
      if (window == 0) return slides;
      // The first max_window_layers layers attend fully.
      ASSIGN_OR_RETURN(const int32_t num_full, fields.Int("max_window_layers", 0, 1 << 20, 28));
      for (int32_t i = 0; i < config.num_layers; ++i) slides[i] = i >= num_full;
      return slides;
    }
    case Architecture::kGemma2:
    case Architecture::kGemma3: {
      // Every so many'th layer attends fully.
      const bool older = fields.Find("sliding_window_pattern") != nullptr;
      const std::string_view name = older ? "sliding_window_pattern" : "_sliding_window_pattern";
      int32_t pattern = 2;
      if (config.architecture == Architecture::kGemma3) {
        ASSIGN_OR_RETURN(pattern, fields.Int(name, 1, 1 << 20, 6));
      }
      for (int32_t i = 0; i < config.num_layers; ++i) slides[i] = (i + 1) % pattern != 0;
      return slides;
    }
    case Architecture::kLlama:
    case Architecture::kMistral:
    case Architecture::kPhi3:
      return slides;
  }
  return slides;
}

// Which layers slide; their windows are set.
Result<std::vector<bool>> ReadWindows(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const int32_t window, ReadWindow(fields, config.architecture));
  ASSIGN_OR_RETURN(std::vector<bool> slides, DefaultSliding(fields, config, window));
  const Json* types = fields.Find("layer_types");
  if (types != nullptr &&
      (!types->is_array() || types->size() != static_cast<size_t>(config.num_layers))) {
    return fields.Wrong("layer_types", *types, "a list of num_hidden_layers strings");
  }
  for (int32_t i = 0; i < config.num_layers; ++i) {
    std::string type = slides[i] ? "sliding_attention" : "full_attention";
    if (types != nullptr) {
      const Json& listed = (*types)[i];
      if (listed != "full_attention" && listed != "sliding_attention") {
        return fields.Unsupported("layer_types[" + std::to_string(i) + "]", listed,
                                  "\"full_attention\", \"sliding_attention\"");
      }
      type = listed.get<std::string>();
    }
    slides[i] = type == "sliding_attention";
    if (slides[i] && window == 0) {
      return InvalidArgumentError("layer_types[" + std::to_string(i) +
                                  "] is \"sliding_attention\" but sliding_window gives no size");
    }
    config.layers[i].window = slides[i] ? window : 0;
  }
  return slides;
}

// Phi-3's longrope: factors for contexts up to the original one and beyond it.
Status ReadLongRope(const ConfigFields& fields, const ConfigFields& rope, const ModelConfig& config,
                    RopeConfig& out) {
  out.scaling = RopeScaling::kLongRope;
  ASSIGN_OR_RETURN(out.original_tokens, fields.Int("original_max_position_embeddings", 2,
                                                   kConfigContextMax, kDefaultWindow));
  ASSIGN_OR_RETURN(const int32_t again, rope.Int("original_max_position_embeddings", 2,
                                                 kConfigContextMax, out.original_tokens));
  if (again != out.original_tokens) {
    return InvalidArgumentError("original_max_position_embeddings is " +
                                std::to_string(out.original_tokens) + " for the model and " +
                                std::to_string(again) + " in its rope parameters");
  }
  for (const std::string_view name : {"short_mscale", "long_mscale"}) {
    const Json* value = rope.Find(name);
    if (value != nullptr) return rope.Unsupported(name, *value, "longrope without it");
  }
  const auto count = static_cast<size_t>(config.num_rotary() / 2);
  ASSIGN_OR_RETURN(out.short_factors, rope.Numbers("short_factor", 1e-6, 1e6, count));
  ASSIGN_OR_RETURN(out.long_factors, rope.Numbers("long_factor", 1e-6, 1e6, count));
  const double stretch = static_cast<double>(config.context_tokens_max) / out.original_tokens;
  ASSIGN_OR_RETURN(out.factor, rope.Number("factor", 1e-6, 1e6, stretch));
  const double paper = out.factor <= 1.0
                           ? 1.0
                           : std::sqrt(1.0 + std::log(out.factor) / std::log(out.original_tokens));
  ASSIGN_OR_RETURN(out.attention_factor, rope.Number("attention_factor", 1e-6, 1e6, paper));
  return OkStatus();
}

// The first dimensions of a head that rotate, where they are not all. `rope` may say so, too.
Status ReadRotaryDim(const ConfigFields& fields, const ConfigFields& rope, ModelConfig& config) {
  ASSIGN_OR_RETURN(double factor, fields.Number("partial_rotary_factor", 0.0, 1.0, 1.0));
  ASSIGN_OR_RETURN(factor, rope.Number("partial_rotary_factor", 0.0, 1.0, factor));
  if (factor == 1.0) return OkStatus();
  if (config.architecture != Architecture::kPhi3) {
    return fields.Unsupported("partial_rotary_factor", Json(factor),
                              "1 (every dimension rotates), or less with Phi3ForCausalLM");
  }
  config.rotary_dim = static_cast<int32_t>(config.head_dim * factor);
  if (config.rotary_dim < 8 || config.rotary_dim % 8 != 0) {
    return fields.Unsupported(
        "partial_rotary_factor", Json(factor),
        "fractions of head_dim " + std::to_string(config.head_dim) + " that are a multiple of 8");
  }
  return OkStatus();
}

// `rope` is the object that says how positions are scaled.
Status ReadRopeScaling(const ConfigFields& fields, const ConfigFields& rope, ModelConfig& config,
                       RopeConfig& out) {
  // "type" is the older spelling.
  ASSIGN_OR_RETURN(const std::string older, rope.String("type", "default"));
  ASSIGN_OR_RETURN(const std::string type, rope.String("rope_type", older));
  if (type == "default") return OkStatus();
  if (config.architecture == Architecture::kPhi3) {
    // The older names are this one, for Phi-3 alone.
    if (type == "longrope" || type == "su" || type == "yarn") {
      return ReadLongRope(fields, rope, config, out);
    }
    return rope.Unsupported("rope_type", Json(type), "default, longrope with Phi3ForCausalLM");
  }
  if (type != "linear" && type != "llama3") {
    return rope.Unsupported("rope_type", Json(type), "default, linear, llama3");
  }
  ASSIGN_OR_RETURN(out.factor, rope.Number("factor", 1.0, 1e6));
  if (type == "linear") {
    out.scaling = RopeScaling::kLinear;
    return OkStatus();
  }
  out.scaling = RopeScaling::kLlama3;
  ASSIGN_OR_RETURN(out.low_freq_factor, rope.Number("low_freq_factor", 1e-6, 1e6));
  ASSIGN_OR_RETURN(out.high_freq_factor, rope.Number("high_freq_factor", 1e-6, 1e6));
  if (!(out.high_freq_factor > out.low_freq_factor)) {
    return InvalidArgumentError("rope scaling: high_freq_factor must be above low_freq_factor");
  }
  ASSIGN_OR_RETURN(out.original_tokens,
                   rope.Int("original_max_position_embeddings", 1, kConfigContextMax));
  return OkStatus();
}

// The object that says how positions are scaled, and its name in errors.
struct RopeObject {
  std::string name;
  const Json* json = nullptr;  // null: there is none
};

Result<RopeObject> FindRope(const ConfigFields& fields) {
  const Json* scaling = fields.Find("rope_scaling");
  const Json* parameters = fields.Find("rope_parameters");
  if (scaling != nullptr && parameters != nullptr && *scaling != *parameters) {
    return InvalidArgumentError("rope_scaling and rope_parameters say different things");
  }
  const RopeObject rope = parameters != nullptr ? RopeObject{"rope_parameters", parameters}
                                                : RopeObject{"rope_scaling", scaling};
  if (rope.json != nullptr && !rope.json->is_object()) {
    return fields.Wrong(rope.name, *rope.json, "an object");
  }
  return rope;
}

// One set of angles for all layers.
Status ReadOneRope(const ConfigFields& fields, const RopeObject& rope, ModelConfig& config) {
  const Json empty = Json::object();
  const Json& json = rope.json != nullptr ? *rope.json : empty;
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      return fields.Unsupported(rope.name + "." + key, value,
                                "one set of parameters for all layers of this architecture");
    }
  }
  const ConfigFields inner(json, rope.name + ".");
  RopeConfig& out = config.ropes[0];
  ASSIGN_OR_RETURN(out.theta, fields.Number("rope_theta", 1.0, kThetaMax, 10000.0));
  ASSIGN_OR_RETURN(out.theta, inner.Number("rope_theta", 1.0, kThetaMax, out.theta));
  RETURN_IF_ERROR(ReadRotaryDim(fields, inner, config));
  return ReadRopeScaling(fields, inner, config, out);
}

// Gemma 3: angles of layers that attend fully (0) and of those that slide (1).
Status ReadTwoRopes(const ConfigFields& fields, const RopeObject& rope,
                    const std::vector<bool>& slides, ModelConfig& config) {
  config.ropes = {RopeConfig{}, RopeConfig{}};
  ASSIGN_OR_RETURN(config.ropes[0].theta, fields.Number("rope_theta", 1.0, kThetaMax, 1e6));
  ASSIGN_OR_RETURN(config.ropes[1].theta,
                   fields.Number("rope_local_base_freq", 1.0, kThetaMax, 10000.0));
  for (int32_t i = 0; i < config.num_layers; ++i) config.layers[i].rope = slides[i] ? 1 : 0;
  if (rope.json == nullptr) return OkStatus();
  if (rope.name == "rope_scaling") {  // the older form, of layers that attend fully
    return ReadRopeScaling(fields, ConfigFields(*rope.json, rope.name + "."), config,
                           config.ropes[0]);
  }
  for (const auto& [key, value] : rope.json->items()) {
    const bool is_known = key == "full_attention" || key == "sliding_attention";
    if (!is_known || (!value.is_null() && !value.is_object())) {
      return fields.Unsupported(rope.name + "." + key, value,
                                "an object each for full_attention and sliding_attention");
    }
    if (value.is_null()) continue;
    RopeConfig& out = config.ropes[key == "full_attention" ? 0 : 1];
    const ConfigFields inner(value, rope.name + "." + key + ".");
    ASSIGN_OR_RETURN(out.theta, inner.Number("rope_theta", 1.0, kThetaMax, out.theta));
    RETURN_IF_ERROR(ReadRotaryDim(fields, inner, config));
    RETURN_IF_ERROR(ReadRopeScaling(fields, inner, config, out));
  }
  return OkStatus();
}

Status ReadActivation(const ConfigFields& fields, ModelConfig& config) {
  if (!IsGemma(config.architecture)) {
    ASSIGN_OR_RETURN(const std::string act, fields.String("hidden_act", "silu"));
    if (act == "silu" || act == "swish") return OkStatus();
    return fields.Unsupported("hidden_act", Json(act), "silu");
  }
  constexpr char kGelu[] = "gelu_pytorch_tanh";
  for (const std::string_view name : {"hidden_activation", "hidden_act"}) {
    ASSIGN_OR_RETURN(const std::string act, fields.String(name, kGelu));
    if (act != kGelu) return fields.Unsupported(name, Json(act), kGelu);
  }
  for (LayerSpec& layer : config.layers) layer.activation = Activation::kGeluTanh;
  return OkStatus();
}

// What Gemma's layers have that others' have not.
Status ReadGemma(const ConfigFields& fields, ModelConfig& config) {
  const bool is_second = config.architecture == Architecture::kGemma2;
  // A field that is null is meant: no cap.
  const auto cap = [&](std::string_view name, double absent) {
    return fields.Number(name, 1e-3, 1e6, is_second && !fields.Mentions(name) ? absent : 0.0);
  };
  ASSIGN_OR_RETURN(const double score_cap, cap("attn_logit_softcapping", 50.0));
  ASSIGN_OR_RETURN(const double logit_cap, cap("final_logit_softcapping", 30.0));
  ASSIGN_OR_RETURN(const double scalar, fields.Number("query_pre_attn_scalar", 1e-3, 1e6, 256.0));
  config.logit_cap = static_cast<float>(logit_cap);
  config.scales_embeddings = true;
  config.norms_add_one = true;
  for (LayerSpec& layer : config.layers) {
    layer.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
    layer.score_cap = static_cast<float>(score_cap);
    layer.output_norms = true;
  }
  return OkStatus();
}

}  // namespace

Status ReadLayers(const ConfigFields& fields, ModelConfig& config) {
  config.SetPlainLayers();
  ASSIGN_OR_RETURN(const std::vector<bool> slides, ReadWindows(fields, config));
  ASSIGN_OR_RETURN(const RopeObject rope, FindRope(fields));
  if (config.architecture == Architecture::kGemma3) {
    RETURN_IF_ERROR(ReadTwoRopes(fields, rope, slides, config));
  } else {
    RETURN_IF_ERROR(ReadOneRope(fields, rope, config));
  }
  RETURN_IF_ERROR(ReadActivation(fields, config));
  if (IsGemma(config.architecture)) RETURN_IF_ERROR(ReadGemma(fields, config));
  const bool qk_norm =
      config.architecture == Architecture::kQwen3 || config.architecture == Architecture::kGemma3;
  ASSIGN_OR_RETURN(const bool use_qk_norm, fields.Bool("use_qk_norm", qk_norm));
  if (use_qk_norm != qk_norm) {
    return fields.Unsupported(
        "use_qk_norm", Json(use_qk_norm),
        "true for Qwen3ForCausalLM and Gemma3ForCausalLM, false for the others");
  }
  for (LayerSpec& layer : config.layers) layer.qk_norm = qk_norm;
  return OkStatus();
}

}  // namespace graft
