#include "learn/learned_folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "adapters/peft_folder.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/new_file.h"
#include "base/strings.h"
#include "model/family.h"
#include "model/safetensors_writer.h"
#include "model/shard.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

std::string FileText(const OrderedJson& json) {
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

// Names of projections as checkpoints have them. A wrapper's other towers may have the same names,
// so there it is a regex of the text's paths, as HF's classes name them today and before.
OrderedJson TargetModules(const ModelConfig& config) {
  if (config.wrapper != nullptr) {
    const std::string names =
        Joined(StoredProjections(config), "|", [](const auto& one) { return one.name; });
    return R"(.*\b(language_model|text_model)\.(.*\.)?layers\.\d+\.(self_attn|mlp)\.()" + names +
           ")";
  }
  std::vector<std::string_view> names;
  for (const StoredProjection& one : StoredProjections(config)) {
    if (std::ranges::find(names, one.name) == names.end()) names.push_back(one.name);
  }
  return names;
}

std::string LoraConfigJson(const TrainedLora& lora, const ModelConfig& config,
                           const std::string& base_model) {
  const OrderedJson json = {{"peft_type", "LORA"},
                            {"task_type", "CAUSAL_LM"},
                            {"base_model_name_or_path", base_model},
                            {"r", lora.rank()},
                            {"lora_alpha", static_cast<double>(lora.scale()) * lora.rank()},
                            {"lora_dropout", 0.0},
                            {"bias", "none"},
                            {"fan_in_fan_out", FamilyOf(config.architecture).transposes_weights},
                            {"inference_mode", true},
                            {"init_lora_weights", true},
                            {"use_rslora", false},
                            {"target_modules", TargetModules(config)}};
  return FileText(json);
}

// PEFT counts a prefix's heads as those of keys.
std::string PromptConfigJson(const TrainedPrompt& prompt, const ModelConfig& config,
                             const std::string& base_model) {
  const bool is_prefix = prompt.kind() == VirtualTokenKind::kKeysValues;
  OrderedJson json = {{"peft_type", is_prefix ? "PREFIX_TUNING" : "PROMPT_TUNING"},
                      {"task_type", "CAUSAL_LM"},
                      {"base_model_name_or_path", base_model},
                      {"inference_mode", true},
                      {"num_virtual_tokens", prompt.num_tokens()},
                      {"num_transformer_submodules", 1},
                      {"num_layers", config.num_layers}};
  json["num_attention_heads"] = is_prefix ? config.num_kv_heads : config.num_heads;
  json["token_dim"] = is_prefix ? config.kv_size() : int64_t{config.hidden_size};
  if (is_prefix) {
    json["encoder_hidden_size"] = config.kv_size();
    json["prefix_projection"] = false;
  } else {
    json["prompt_tuning_init"] = "RANDOM";  // PEFT draws no numbers if it has a file
  }
  return FileText(json);
}

// A matrix as files have it: A as it lies here, B turned, with these rows.
std::vector<char> FileBytes(TrainedLora& lora, const TrainedLora::Place& place, LoraSide side,
                            const std::vector<int64_t>& rows, DType dtype) {
  const int64_t rank = lora.rank();
  const float* from = lora.parameters().data() + place.begin;
  std::vector<float> values(from, from + rank * place.n);
  for (int64_t j = 0; side == LoraSide::kB && j < rank; ++j) {
    for (const int64_t row : rows) values[static_cast<size_t>(row * rank + j)] = *from++;
  }
  std::vector<char> bytes(values.size() * static_cast<size_t>(DTypeBytes(dtype)));
  ConvertElements(DType::kF32, values.data(), dtype, bytes.data(), rank * place.n);
  return bytes;
}

Status WriteLoraWeights(const std::string& path, const ModelConfig& config, TrainedLora& lora,
                        DType dtype) {
  std::vector<std::vector<char>> kept;
  std::vector<SafetensorsOut> tensors;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const LoraModule target : lora.shape().lora_modules()) {
      const StoredProjection& stored = StoredProjections(config)[static_cast<size_t>(target)];
      const std::vector<int64_t> rows = StoredRowsOf(config, stored);
      for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
        const TrainedLora::Place place = lora.place(layer, target, side);
        kept.push_back(FileBytes(lora, place, side, rows, dtype));
        const std::vector<int64_t> shape = side == LoraSide::kA
                                               ? std::vector<int64_t>{lora.rank(), place.n}
                                               : std::vector<int64_t>{place.n, lora.rank()};
        tensors.push_back({LoraTensorName(config, layer, stored.first, side),
                           {kept.back().data(), dtype, shape}});
      }
    }
  }
  return WriteSafetensors(path, tensors, {{"format", "pt"}});
}

Status WriteLora(const std::string& path, const ModelConfig& config, TrainedLora& lora, DType dtype,
                 const std::string& base_model) {
  RETURN_IF_ERROR(
      WriteWholeFile(path + "/adapter_config.json", LoraConfigJson(lora, config, base_model)));
  return WriteLoraWeights(path + "/adapter_model.safetensors", config, lora, dtype);
}

Status WritePrompt(const std::string& path, const ModelConfig& config, TrainedPrompt& prompt,
                   const std::string& base_model) {
  RETURN_IF_ERROR(
      WriteWholeFile(path + "/adapter_config.json", PromptConfigJson(prompt, config, base_model)));
  const auto n = static_cast<int64_t>(prompt.parameters().size());
  std::vector<char> bytes(static_cast<size_t>(n * DTypeBytes(prompt.dtype())));
  ConvertElements(DType::kF32, prompt.parameters().data(), prompt.dtype(), bytes.data(), n);
  const SafetensorsOut tensor = {
      "prompt_embeddings", {bytes.data(), prompt.dtype(), {prompt.num_tokens(), prompt.columns()}}};
  return WriteSafetensors(path + "/adapter_model.safetensors", {&tensor, 1}, {{"format", "pt"}});
}

Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? SystemError(error.value(), "cannot make " + path) : OkStatus();
}

// graft.json makes a folder a bundle, so the hash cannot be known before it is there.
Status WriteManifest(const std::string& path, OrderedJson json, const OrderedJson& provenance) {
  json.update(provenance);
  return WriteWholeFile(path + "/graft.json", FileText(json));
}

Result<std::string> WriteFiles(const std::string& path, const ModelConfig& config,
                               const LearnedAdapter& adapter, DType dtype,
                               const std::string& base_model, const OrderedJson& provenance) {
  OrderedJson json = {{"format", kGraftJsonFormat}};
  const bool is_bundle = adapter.prompt != nullptr;
  if (adapter.lora != nullptr) {
    const std::string folder = is_bundle ? path + "/lora" : path;
    RETURN_IF_ERROR(MakeFolder(folder));
    RETURN_IF_ERROR(WriteLora(folder, config, *adapter.lora, dtype, base_model));
  }
  if (is_bundle) {
    RETURN_IF_ERROR(MakeFolder(path + "/prompt"));
    RETURN_IF_ERROR(WritePrompt(path + "/prompt", config, *adapter.prompt, base_model));
    RETURN_IF_ERROR(WriteManifest(path, json, OrderedJson::object()));
  }
  ASSIGN_OR_RETURN(const PeftContent read, ReadAdapter(path, std::numeric_limits<int64_t>::max()));
  const std::string hash = read.is_bundle ? ContentHash(read) : AdapterHash(read.folders[0]);
  json["kind"] = !is_bundle ? "lora" : adapter.lora == nullptr ? "prompt" : "lora and prompt";
  json["hash"] = hash;
  RETURN_IF_ERROR(WriteManifest(path, std::move(json), provenance));
  return hash;
}

}  // namespace

Result<std::string> WriteLearnedFolder(const std::string& path, const ModelConfig& config,
                                       const LearnedAdapter& adapter, DType dtype,
                                       const std::string& base_model,
                                       const OrderedJson& provenance) {
  const fs::path target(path);
  // A name that begins with a dot, without an adapter_config.json in it, is no adapter to a server.
  const fs::path fresh = target.parent_path() / ("." + target.filename().string() + ".new");
  const fs::path old = target.parent_path() / ("." + target.filename().string() + ".old");
  std::error_code error;
  fs::remove_all(fresh, error);
  fs::remove_all(old, error);
  RETURN_IF_ERROR(MakeFolder(fresh.string()));
  Result<std::string> hash =
      WriteFiles(fresh.string(), config, adapter, dtype, base_model, provenance);
  if (hash.ok()) {
    std::error_code none;
    fs::rename(target, old, none);  // fails if there is none, which is fine
    fs::rename(fresh, target, error);
    if (error) hash = SystemError(error.value(), "cannot rename " + fresh.string());
  }
  std::error_code ignored;
  fs::remove_all(old, ignored);
  fs::remove_all(fresh, ignored);
  return hash;
}

Status AddToScores(const std::string& path, const std::string& field, const OrderedJson& value) {
  const std::string file = path + "/graft.json";
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.value("scores", OrderedJson::object()).is_object()) {
    return DataLossError(file + " is not what was written there");
  }
  json["scores"][field] = value;
  return WriteWholeFile(file, FileText(json));
}

}  // namespace graft
