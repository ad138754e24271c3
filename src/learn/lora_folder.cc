#include "learn/lora_folder.h"

#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/json.h"
#include "model/adapter_folder.h"
#include "model/safetensors_writer.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

std::string PeftConfigJson(const TrainedLora& lora, const std::string& base_model) {
  OrderedJson modules = OrderedJson::array();
  for (const LoraModule module : kAllLoraModules) modules.push_back(LoraModuleName(module));
  const OrderedJson json = {{"peft_type", "LORA"},
                            {"task_type", "CAUSAL_LM"},
                            {"base_model_name_or_path", base_model},
                            {"r", lora.rank()},
                            {"lora_alpha", static_cast<double>(lora.scale()) * lora.rank()},
                            {"lora_dropout", 0.0},
                            {"bias", "none"},
                            {"fan_in_fan_out", false},
                            {"inference_mode", true},
                            {"init_lora_weights", true},
                            {"use_rslora", false},
                            {"target_modules", std::move(modules)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

// A matrix as files have it: A as it lies here, B turned.
std::vector<char> FileBytes(TrainedLora& lora, const TrainedLora::Place& place, LoraSide side,
                            DType dtype) {
  const int64_t rank = lora.rank();
  const float* const from = lora.parameters().data() + place.begin;
  std::vector<float> values(from, from + rank * place.n);
  if (side == LoraSide::kB) {
    for (int64_t j = 0; j < rank; ++j) {
      for (int64_t i = 0; i < place.n; ++i) {
        values[static_cast<size_t>(i * rank + j)] = from[j * place.n + i];
      }
    }
  }
  std::vector<char> bytes(values.size() * static_cast<size_t>(DTypeBytes(dtype)));
  ConvertElements(DType::kF32, values.data(), dtype, bytes.data(), rank * place.n);
  return bytes;
}

Status WriteWeights(const std::string& path, const ModelConfig& config, TrainedLora& lora,
                    DType dtype) {
  std::vector<std::vector<char>> kept;
  std::vector<SafetensorsOut> tensors;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const LoraModule module : kAllLoraModules) {
      for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
        const TrainedLora::Place place = lora.place(layer, module, side);
        kept.push_back(FileBytes(lora, place, side, dtype));
        const std::vector<int64_t> shape = side == LoraSide::kA
                                               ? std::vector<int64_t>{lora.rank(), place.n}
                                               : std::vector<int64_t>{place.n, lora.rank()};
        tensors.push_back(
            {LoraTensorName(config, layer, module, side), {kept.back().data(), dtype, shape}});
      }
    }
  }
  return WriteSafetensors(path, tensors, {{"format", "pt"}});
}

Result<std::string> WriteFiles(const std::string& path, const ModelConfig& config,
                               TrainedLora& lora, DType dtype, const std::string& base_model,
                               const OrderedJson& provenance) {
  RETURN_IF_ERROR(WriteWholeFile(path + "/adapter_config.json", PeftConfigJson(lora, base_model)));
  RETURN_IF_ERROR(WriteWeights(path + "/adapter_model.safetensors", config, lora, dtype));
  ASSIGN_OR_RETURN(const AdapterFolder read,
                   ReadAdapterFolder(path, std::numeric_limits<int64_t>::max()));
  const std::string hash = AdapterHash(read);
  OrderedJson json = {{"format", kGraftJsonFormat}, {"kind", "lora"}, {"hash", hash}};
  json.update(provenance);
  RETURN_IF_ERROR(
      WriteWholeFile(path + "/graft.json",
                     json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n"));
  return hash;
}

}  // namespace

Result<std::string> WriteLoraFolder(const std::string& path, const ModelConfig& config,
                                    TrainedLora& lora, DType dtype, const std::string& base_model,
                                    const OrderedJson& provenance) {
  const fs::path target(path);
  // Names that begin with a dot and have no adapter_config.json of their own are nobody's adapter.
  const fs::path fresh = target.parent_path() / ("." + target.filename().string() + ".new");
  const fs::path old = target.parent_path() / ("." + target.filename().string() + ".old");
  std::error_code error;
  fs::remove_all(fresh, error);
  fs::remove_all(old, error);
  fs::create_directories(fresh, error);
  if (error) return SystemError(error.value(), "cannot make " + fresh.string());
  Result<std::string> hash =
      WriteFiles(fresh.string(), config, lora, dtype, base_model, provenance);
  if (hash.ok()) {
    std::error_code none;
    fs::rename(target, old, none);  // where there is one
    fs::rename(fresh, target, error);
    if (error) hash = SystemError(error.value(), "cannot rename " + fresh.string());
  }
  std::error_code ignored;
  fs::remove_all(old, ignored);
  fs::remove_all(fresh, ignored);
  return hash;
}

}  // namespace graft
