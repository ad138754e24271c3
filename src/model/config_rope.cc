#include "model/config_rope.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/json.h"
#include "model/config_layers.h"
#include "model/family.h"

namespace graft {
namespace {

constexpr double kThetaMax = 1e15;
constexpr char kOriginalTokens[] = "original_max_position_embeddings";
constexpr int64_t kLongRopeTokens = 4096;  // HF's default of what Phi-3 was trained on

// What the model was trained on before its context was stretched; the model and its rope may say
// it.
Result<int32_t> ReadOriginalTokens(const ConfigFields& fields, const ConfigFields& rope,
                                   int64_t absent) {
  ASSIGN_OR_RETURN(const int32_t tokens, fields.Int(kOriginalTokens, 2, kConfigContextMax, absent));
  ASSIGN_OR_RETURN(const int32_t again, rope.Int(kOriginalTokens, 2, kConfigContextMax, tokens));
  if (again != tokens) {
    return InvalidArgumentError(std::string(kOriginalTokens) + " is " + std::to_string(tokens) +
                                " for the model and " + std::to_string(again) +
                                " in its rope parameters");
  }
  return tokens;
}

// Phi-3's longrope: factors for contexts up to the original one and beyond it.
Status ReadLongRope(const ConfigFields& fields, const ConfigFields& rope, const ModelConfig& config,
                    RopeConfig& out) {
  ASSIGN_OR_RETURN(out.original_tokens, ReadOriginalTokens(fields, rope, kLongRopeTokens));
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

Status ReadLlama3(const ConfigFields& rope, RopeConfig& out) {
  ASSIGN_OR_RETURN(out.low_freq_factor, rope.Number("low_freq_factor", 1e-6, 1e6));
  ASSIGN_OR_RETURN(out.high_freq_factor, rope.Number("high_freq_factor", 1e-6, 1e6));
  if (!(out.high_freq_factor > out.low_freq_factor)) {
    return InvalidArgumentError("rope scaling: high_freq_factor must be above low_freq_factor");
  }
  ASSIGN_OR_RETURN(out.original_tokens, rope.Int(kOriginalTokens, 1, kConfigContextMax));
  return OkStatus();
}

// What yarn multiplies sines and cosines by where the config does not say it.
double YarnAttentionFactor(double factor, double mscale, double mscale_all_dim) {
  const auto of = [&](double scale) {
    return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
  };
  return mscale != 0.0 && mscale_all_dim != 0.0 ? of(mscale) / of(mscale_all_dim) : of(1.0);
}

Status ReadYarn(const ConfigFields& fields, const ConfigFields& rope, ModelConfig& config,
                RopeConfig& out) {
  if (out.theta <= 1.0)
    return InvalidArgumentError("rope scaling: yarn needs a rope_theta above 1");
  ASSIGN_OR_RETURN(const int32_t of_rope, rope.Int(kOriginalTokens, 2, kConfigContextMax,
                                                   std::max(config.context_tokens_max, 2)));
  ASSIGN_OR_RETURN(out.original_tokens, ReadOriginalTokens(fields, rope, of_rope));
  const auto beta = [&](std::string_view name, double absent) -> Result<double> {
    ASSIGN_OR_RETURN(const double value, rope.Number(name, 0.0, 1e6, absent));
    return value == 0.0 ? absent : value;
  };
  ASSIGN_OR_RETURN(out.beta_fast, beta("beta_fast", 32.0));
  ASSIGN_OR_RETURN(out.beta_slow, beta("beta_slow", 1.0));
  if (out.beta_fast < out.beta_slow) {
    return InvalidArgumentError("rope scaling: beta_fast must not be below beta_slow");
  }
  // HF takes null for false here.
  ASSIGN_OR_RETURN(out.truncates, rope.Bool("truncate", !rope.Mentions("truncate")));
  ASSIGN_OR_RETURN(const double mscale, rope.Number("mscale", 0.0, 1e3, 0.0));
  ASSIGN_OR_RETURN(const double mscale_all_dim, rope.Number("mscale_all_dim", 0.0, 1e3, 0.0));
  ASSIGN_OR_RETURN(out.attention_factor,
                   rope.Number("attention_factor", 1e-6, 1e6,
                               YarnAttentionFactor(out.factor, mscale, mscale_all_dim)));
  // Published configs are to be given the scaling by hand, and keep the context of before.
  if (fields.Find(kOriginalTokens) == nullptr && rope.Find(kOriginalTokens) == nullptr) {
    return OkStatus();
  }
  const auto stretched = static_cast<int64_t>(out.original_tokens * out.factor);
  config.context_tokens_max = static_cast<int32_t>(
      std::clamp<int64_t>(stretched, config.context_tokens_max, kConfigContextMax));
  return OkStatus();
}

// Llama 4's scale of queries, which Ministral 3 has beside yarn.
Status ReadQueryScale(const ConfigFields& rope, const ModelConfig& config, RopeConfig& out) {
  constexpr char kBeta[] = "llama_4_scaling_beta";
  const Json* const given = rope.Find(kBeta);
  const ModelFamily& family = FamilyOf(config.architecture);
  if (!family.may_scale_queries) {
    if (given == nullptr || IsNeutral(*given)) return OkStatus();
    return rope.Unsupported(kBeta, *given,
                            "models without it, and " + FamiliesThat([](const ModelFamily& have) {
                              return have.may_scale_queries;
                            }));
  }
  ASSIGN_OR_RETURN(out.query_beta, rope.Number(kBeta, 0.0, 1e3));
  if (out.query_beta == 0.0 || out.scaling == RopeScaling::kYarn) return OkStatus();
  return rope.Unsupported(kBeta, *given, "0, or more beside rope_type \"yarn\"");
}

Result<RopeScaling> ScalingOf(const ConfigFields& rope, const RopeTypes& types) {
  // "type" is the older spelling.
  ASSIGN_OR_RETURN(const std::string older, rope.String("type", "default"));
  ASSIGN_OR_RETURN(const std::string name, rope.String("rope_type", older));
  if (name == "default") return RopeScaling::kNone;
  for (const RopeType& type : types.all) {
    if (type.name == name) return type.scaling;
  }
  return rope.Unsupported("rope_type", Json(name), "default, " + std::string(types.text));
}

}  // namespace

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

Status ReadOneRope(const ConfigFields& fields, ModelConfig& config) {
  ASSIGN_OR_RETURN(const RopeObject rope, FindRope(fields));
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
  const ModelFamily& family = FamilyOf(config.architecture);
  out.theta = family.rope_theta;
  for (const std::string_view name : {family.older_rope_theta, std::string_view("rope_theta")}) {
    if (!name.empty()) RETURN_IF_ERROR(ReadTheta(name, fields, out));
  }
  RETURN_IF_ERROR(ReadTheta("rope_theta", inner, out));
  RETURN_IF_ERROR(ReadRotaryDim(fields, inner, config));
  RETURN_IF_ERROR(ReadRopeScaling(fields, inner, config, out));
  return ReadQueryScale(inner, config, out);
}

Status ReadTwoRopes(const ConfigFields& fields, double full_theta, double sliding_theta,
                    ModelConfig& config) {
  ASSIGN_OR_RETURN(const RopeObject rope, FindRope(fields));
  config.ropes = {RopeConfig{.theta = full_theta}, RopeConfig{.theta = sliding_theta}};
  for (LayerSpec& layer : config.layers) layer.rope = layer.window > 0 ? 1 : 0;
  if (rope.json == nullptr) return OkStatus();
  if (rope.name == "rope_scaling") {
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
    RETURN_IF_ERROR(ReadTheta("rope_theta", inner, out));
    RETURN_IF_ERROR(ReadRotaryDim(fields, inner, config));
    RETURN_IF_ERROR(ReadRopeScaling(fields, inner, config, out));
  }
  return OkStatus();
}

Status ReadRotaryDim(const ConfigFields& fields, const ConfigFields& rope, ModelConfig& config) {
  const ModelFamily& family = FamilyOf(config.architecture);
  double factor = family.rotary_factor;
  for (const std::string_view name :
       {family.older_rotary_factor, std::string_view("partial_rotary_factor")}) {
    if (name.empty()) continue;
    ASSIGN_OR_RETURN(factor, fields.Number(name, 0.0, 1.0, factor));
  }
  ASSIGN_OR_RETURN(factor, rope.Number("partial_rotary_factor", 0.0, 1.0, factor));
  if (factor == 1.0) return OkStatus();
  if (!family.may_rotate_in_part) {
    return fields.Unsupported(
        "partial_rotary_factor", Json(factor),
        "1 (every dimension rotates), or less with " +
            FamiliesThat([](const ModelFamily& have) { return have.may_rotate_in_part; }));
  }
  config.rotary_dim = static_cast<int32_t>(config.head_dim * factor);
  if (config.rotary_dim < 8 || config.rotary_dim % 8 != 0) {
    return fields.Unsupported(
        "partial_rotary_factor", Json(factor),
        "fractions of head_dim " + std::to_string(config.head_dim) + " that are a multiple of 8");
  }
  return OkStatus();
}

Status ReadTheta(std::string_view name, const ConfigFields& fields, RopeConfig& out) {
  ASSIGN_OR_RETURN(out.theta, fields.Number(name, 1.0, kThetaMax, out.theta));
  return OkStatus();
}

Status ReadRopeScaling(const ConfigFields& fields, const ConfigFields& rope, ModelConfig& config,
                       RopeConfig& out) {
  ASSIGN_OR_RETURN(out.scaling, ScalingOf(rope, FamilyOf(config.architecture).rope_types));
  if (out.scaling == RopeScaling::kNone) return OkStatus();
  if (out.scaling == RopeScaling::kLongRope) return ReadLongRope(fields, rope, config, out);
  ASSIGN_OR_RETURN(out.factor, rope.Number("factor", 1.0, 1e6));
  if (out.scaling == RopeScaling::kLlama3) return ReadLlama3(rope, out);
  if (out.scaling == RopeScaling::kYarn) return ReadYarn(fields, rope, config, out);
  return OkStatus();
}

}  // namespace graft
