#include "executor/adapter_backend.h"

#include <map>
#include <new>
#include <set>
#include <utility>

#include "base/json.h"
#include "model/adapter_folder.h"
#include "model/lora_self_test.h"

namespace graft {
namespace {

constexpr size_t kHashDigitsShown = 12;

struct LoadedAdapter {
  std::string hash;
  PeftConfig peft;
  LoraWeights weights;
};

Result<LoadedAdapter> LoadAdapter(const std::string& path, const ModelConfig& config, DType dtype,
                                  const FileJail& jail) {
  ASSIGN_OR_RETURN(AdapterFolder folder,
                   ReadAdapterFolder(path, AdapterWeightsBytesMax(config), jail));
  const std::string hash = AdapterHash(folder);
  const Result<PeftConfig> peft = ParsePeftConfig(folder.config);
  if (!peft.ok()) return peft.status().WithContext(path + "/adapter_config.json");
  ASSIGN_OR_RETURN(
      const SafetensorsFile file,
      SafetensorsFile::FromBytes(std::move(folder.weights), path + "/adapter_model.safetensors"));
  Result<LoraWeights> weights = LoraWeights::Load(file, *peft, config, dtype);
  if (!weights.ok()) return weights.status().WithContext(path);
  const Status tested = SelfTestLora(file, *peft, config, *weights);
  if (!tested.ok()) return tested.WithContext(path);
  return LoadedAdapter{hash, *peft, std::move(*weights)};
}

}  // namespace

Result<std::string> LoraAdapterBackend::Hash(const std::string& path) {
  ASSIGN_OR_RETURN(const AdapterFolder folder,
                   ReadAdapterFolder(path, AdapterWeightsBytesMax(config_), jail_));
  return AdapterHash(folder);
}

Result<AdapterFacts> LoraAdapterBackend::Read(const std::string& path) {
  ASSIGN_OR_RETURN(const HostStore::Held held, Fetch(path, ""));
  return held->facts;
}

Result<HostStore::Held> LoraAdapterBackend::Fetch(const std::string& path,
                                                  const std::string& hash) {
  if (!hash.empty()) {
    HostStore::Held held = store_.Find(hash);
    if (held) return held;
  }
  try {
    return ReadFolder(path, hash);
  } catch (const std::bad_alloc& error) {
    return ResourceExhaustedError(path + " found no memory (" + error.what() +
                                  "); try again later, or start the server with less --host-gib");
  }
}

Result<HostStore::Held> LoraAdapterBackend::ReadFolder(const std::string& path,
                                                       const std::string& hash) {
  ASSIGN_OR_RETURN(LoadedAdapter adapter, LoadAdapter(path, config_, dtype_, jail_));
  if (!hash.empty() && adapter.hash != hash) {
    return FailedPreconditionError(
        path + " has changed: it held " + hash.substr(0, kHashDigitsShown) + " and holds " +
        adapter.hash.substr(0, kHashDigitsShown) + " now; load it again to serve that");
  }
  HostAdapter described =
      DescribeHostAdapter(adapter.weights, config_, adapter.hash, adapter.peft.base_model);
  if (slicer_.keeps_all()) return store_.Put(std::move(described), std::move(adapter.weights));
  described.facts = slicer_.Slice(described).facts;
  const int64_t bytes = described.weight_bytes;
  HostStore::Held held = store_.Put(std::move(described), std::move(adapter.weights));
  if (held.is_in_store()) return held;
  return ResourceExhaustedError(
      path + " has " + std::to_string(bytes) +
      " bytes, for which the memory that the ranks share " +
      "has no room beside the adapters in use; try again later, or start with more --host-gib");
}

Result<OrderedJson> InspectAdapter(const std::string& path, const ModelConfig& config,
                                   DType dtype) {
  ASSIGN_OR_RETURN(const LoadedAdapter adapter, LoadAdapter(path, config, dtype, FileJail()));
  struct ModuleFacts {
    std::set<int32_t> ranks;
    std::set<float> scales;
    int32_t num_layers = 0;
  };
  std::map<LoraModule, ModuleFacts> modules;
  std::set<int32_t> layers;
  for (const LoraTarget& target : adapter.weights.targets()) {
    // The first of several stacked modules stands for all of them.
    if (StoredProjectionOf(config, target.module).first != target.module) continue;
    ModuleFacts& facts = modules[target.module];
    facts.ranks.insert(target.rank);
    facts.scales.insert(target.scale);
    ++facts.num_layers;
    layers.insert(target.layer);
  }
  OrderedJson json = {
      {"path", path},
      {"hash", adapter.hash},
      {"base_model", adapter.peft.base_model},
      {"peft_version", adapter.peft.peft_version},
      {"rank_max", adapter.weights.rank_max()},
      {"bytes", adapter.weights.bytes()},
      {"served_dtype", std::string(DTypeName(dtype))},
      {"layers",
       {{"first", *layers.begin()}, {"last", *layers.rbegin()}, {"count", layers.size()}}},
      {"modules", OrderedJson::object()}};
  for (const auto& [module, facts] : modules) {
    json["modules"][std::string(StoredProjectionOf(config, module).name)] = {
        {"ranks", facts.ranks}, {"scales", facts.scales}, {"layers", facts.num_layers}};
  }
  return json;
}

}  // namespace graft
