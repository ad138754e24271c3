#include "adapters/mlx_adapter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "adapters/peft_json.h"
#include "adapters/strided_tensors.h"
#include "base/json.h"
#include "kernels/lora/lora.h"
#include "model/safetensors.h"

namespace graft {
namespace {

using peft_json::CheckKeys;
using peft_json::Malformed;
using peft_json::ReadText;
using peft_json::Unsupported;
using peft_json::Value;

constexpr std::string_view kParameters = "lora_parameters";
constexpr std::string_view kFineTuneType = "fine_tune_type";

// Keys in lora_parameters.
constexpr std::string_view kParameterKeys[] = {
    "rank", "scale",
    "keys",      // which modules were trained: the tensors say so, too
    "dropout"};  // identity at inference
constexpr peft_json::UnappliedKey kUnappliedParameters[] = {
    {"alpha",
     "is of an early version of mlx-lm, which multiplied scale by alpha / rank where later ones do "
     "not; give the scale that the adapter was trained with, and take alpha out"}};

struct MlxConfig {
  std::string base_model;
  int64_t rank = 0;
  double scale = 0.0;
};

// All other keys are about training, where the data was, or how long it took.
Status CheckKind(const OrderedJson& json) {
  ASSIGN_OR_RETURN(const std::string type, ReadText(json, kFineTuneType));
  if (type == "dora" || Value(json, "use_dora") == true) {
    return Unsupported(type == "dora" ? kFineTuneType : "use_dora",
                       type == "dora" ? Value(json, kFineTuneType) : Value(json, "use_dora"),
                       "asks for DoRA's magnitudes, which are not applied");
  }
  if (type.empty() || type == "lora") return OkStatus();
  return Unsupported(kFineTuneType, Value(json, kFineTuneType),
                     type == "full" ? "changed the base's own weights: fuse them, and serve the "
                                      "model that comes out"
                                    : "is not known: only \"lora\" is served");
}

Result<MlxConfig> ReadMlxConfig(std::string_view text) {
  ASSIGN_OR_RETURN(const OrderedJson json, peft_json::Parse(text));
  RETURN_IF_ERROR(CheckKind(json));
  const OrderedJson& parameters = Value(json, kParameters);
  if (!parameters.is_object()) {
    return Malformed(kParameters, parameters, "mlx-lm's LoRA needs its rank and scale here");
  }
  RETURN_IF_ERROR(CheckKeys(parameters, kParameterKeys, kUnappliedParameters));
  MlxConfig config;
  ASSIGN_OR_RETURN(config.base_model, ReadText(json, "model"));
  const OrderedJson& rank = Value(parameters, "rank");
  if (!rank.is_number_integer() || rank.get<int64_t>() < 1 || rank.get<int64_t>() > kLoraRankMax) {
    return Malformed("lora_parameters.rank", rank,
                     "a rank is an integer from 1 to " + std::to_string(kLoraRankMax));
  }
  config.rank = rank.get<int64_t>();
  // Without a default: mlx-lm's changed between versions.
  const OrderedJson& scale = Value(parameters, "scale");
  if (!scale.is_number() || !std::isfinite(scale.get<double>())) {
    return Malformed("lora_parameters.scale", scale, "scale is a finite number");
  }
  config.scale = scale.get<double>();
  return config;
}

// A [rank, in] of lora_a [in, rank]; B [out, rank] of lora_b [rank, out].
Result<StridedTensor> TransposedTensor(const std::string& name, const TensorView& tensor,
                                       const std::string& dtype, int64_t rank) {
  const bool is_a = name.ends_with(".lora_a");
  const bool is_matrix = tensor.shape.size() == 2 && tensor.shape[is_a ? 1 : 0] == rank;
  if (!is_matrix) {
    return InvalidArgumentError("tensor \"" + name + "\" is no matrix of the rank " +
                                std::to_string(rank) +
                                " that adapter_config.json gives (lora_parameters)");
  }
  const std::string module = name.substr(0, name.rfind('.'));
  return StridedTensor{
      .name = "base_model.model." + module + (is_a ? ".lora_A.weight" : ".lora_B.weight"),
      .dtype = dtype,
      .element_bytes = DTypeBytes(tensor.dtype),
      .shape = {tensor.shape[1], tensor.shape[0]},
      .strides = {1, tensor.shape[1]},
      .data = static_cast<const char*>(tensor.data)};
}

std::string PeftConfigOf(const MlxConfig& config, const std::set<std::string>& modules) {
  return DumpJson({{"peft_type", "LORA"},
                   {"task_type", "CAUSAL_LM"},
                   {"base_model_name_or_path", config.base_model},
                   {"r", config.rank},
                   {"lora_alpha", config.scale * static_cast<double>(config.rank)},
                   {"target_modules", modules}});
}

}  // namespace

bool IsMlxConfig(std::string_view config) {
  const Result<OrderedJson> json = peft_json::Parse(config);
  return json.ok() && Value(*json, "peft_type").is_null() &&
         (json->contains(kParameters) || json->contains(kFineTuneType));
}

Result<PeftBytes> PeftOfMlx(std::string_view config, FileBytes weights, const std::string& label) {
  const Result<MlxConfig> mlx = ReadMlxConfig(config);
  if (!mlx.ok()) return mlx.status().WithContext("adapter_config.json");
  const int64_t bytes = weights.bytes();
  ASSIGN_OR_RETURN(const SafetensorsFile file,
                   SafetensorsFile::FromBytes(std::move(weights), label));
  std::vector<StridedTensor> tensors;
  std::set<std::string> modules;
  for (const auto& [name, entry] : file.entries()) {
    if (!name.ends_with(".lora_a") && !name.ends_with(".lora_b")) {
      return UnimplementedError(label + ": tensor \"" + name +
                                "\" is neither lora_a nor lora_b of a module, and is not applied");
    }
    ASSIGN_OR_RETURN(const TensorView tensor, file.Tensor(name));
    Result<StridedTensor> transposed = TransposedTensor(name, tensor, entry.dtype, mlx->rank);
    if (!transposed.ok()) return transposed.status().WithContext(label);
    tensors.push_back(std::move(*transposed));
    modules.insert(name.substr(0, name.rfind('.')));
  }
  ASSIGN_OR_RETURN(FileBytes written, WriteStridedTensors(std::move(tensors), bytes));
  return PeftBytes{PeftConfigOf(*mlx, modules), std::move(written)};
}

}  // namespace graft
