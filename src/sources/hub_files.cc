#include "sources/hub_files.h"

#include <algorithm>
#include <set>

#include "base/adapter_files.h"
#include "base/file.h"
#include "base/json.h"
#include "sources/hub_names.h"

namespace graft {
namespace {

constexpr char kModelConfig[] = "config.json";
constexpr char kAdapterConfig[] = "adapter_config.json";
constexpr char kWholeWeights[] = "model.safetensors";
constexpr char kWeightsIndex[] = "model.safetensors.index.json";
constexpr int64_t kIndexBytesMax = 64 << 20;

constexpr const char* kOptionalModelFiles[] = {"generation_config.json",
                                               "tokenizer.json",
                                               "tokenizer_config.json",
                                               "tokenizer.model",
                                               "special_tokens_map.json",
                                               "added_tokens.json",
                                               "vocab.json",
                                               "merges.txt",
                                               "chat_template.jinja",
                                               "chat_template.json",
                                               "additional_chat_templates/tool_use.jinja"};

const HubFile* FindHubFile(const HubTree& tree, const std::string& path) {
  const auto it = std::find_if(tree.begin(), tree.end(),
                               [&](const HubFile& file) { return file.path == path; });
  return it == tree.end() ? nullptr : &*it;
}

// Shards have plain names; "../x" would be a path of this machine.
bool IsShardName(const std::string& name) {
  return IsSafeHubPath(name) && name.find('/') == std::string::npos &&
         name.ends_with(".safetensors");
}

Result<std::set<std::string>> ShardNames(const std::string& index_text) {
  ASSIGN_OR_RETURN(const Json index, ParseJson(index_text));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty()) {
    return DataLossError(std::string(kWeightsIndex) + " has no weight_map");
  }
  std::set<std::string> names;
  for (const Json& shard : *map) {
    if (!shard.is_string() || !IsShardName(shard.get<std::string>())) {
      return DataLossError(std::string(kWeightsIndex) + " names a file that is no *.safetensors " +
                           "beside it: " + DumpJson(shard).substr(0, 200));
    }
    names.insert(shard.get<std::string>());
  }
  return names;
}

Status NoModel(const HubTree& tree) {
  const bool is_adapter = FindHubFile(tree, kAdapterConfig) != nullptr;
  if (is_adapter) {
    return UnimplementedError(
        "it is an adapter, not a model: name it in --source, or fetch it into the adapters folder");
  }
  for (const HubFile& file : tree) {
    if (file.path.ends_with(".gguf")) {
      return UnimplementedError(
          "it has GGUF files, which are not read; take the repository "
          "with *.safetensors");
    }
  }
  return UnimplementedError(
      "it has no config.json with model.safetensors or model.safetensors.index.json at its top; "
      "pickles (.bin) are not read");
}

}  // namespace

HubKind KindOfTree(const HubTree& tree, HubKind wanted) {
  if (wanted != HubKind::kEither) return wanted;
  const bool is_adapter =
      FindHubFile(tree, kModelConfig) == nullptr && (FindHubFile(tree, kAdapterConfig) != nullptr ||
                                                     FindHubFile(tree, kBundleManifest) != nullptr);
  return is_adapter ? HubKind::kAdapter : HubKind::kModel;
}

std::vector<std::string> OptionalHubFiles(HubKind kind) {
  if (kind == HubKind::kModel) {
    return {std::begin(kOptionalModelFiles), std::end(kOptionalModelFiles)};
  }
  std::vector<std::string> files(kAdapterTextFiles.begin(), kAdapterTextFiles.end());
  files.insert(files.end(), kVocabularyFiles.begin(), kVocabularyFiles.end());
  return files;
}

Result<HubTree> ChooseHubFiles(const HubTree& tree, HubKind kind) {
  HubTree chosen;
  const auto add = [&](const std::string& path) {
    const HubFile* const file = FindHubFile(tree, path);
    if (file != nullptr) chosen.push_back(*file);
    return file != nullptr;
  };
  if (kind == HubKind::kModel) {
    const bool has_weights = add(kModelConfig) && (add(kWholeWeights) || add(kWeightsIndex));
    if (!has_weights) return NoModel(tree);
  } else if (FindHubFile(tree, kAdapterConfig) != nullptr) {
    add(kAdapterConfig);
    if (!add(kPeftFiles[1])) return UnimplementedError(kHasNoSafetensors);
  } else if (FindHubFile(tree, kBundleManifest) != nullptr) {
    for (const char* const file : kBundleFiles) add(file);
  } else {
    const bool is_model = FindHubFile(tree, kModelConfig) != nullptr;
    return UnimplementedError(is_model ? kIsBaseModel : kHasNoConfig);
  }
  for (const std::string& path : OptionalHubFiles(kind)) add(path);
  return chosen;
}

Status CheckBytes(const HubTree& chosen, int64_t bytes_max) {
  int64_t bytes = 0;
  for (const HubFile& file : chosen) bytes += file.bytes;
  if (bytes_max == 0 || bytes <= bytes_max) return OkStatus();
  return Status(StatusCode::kOutOfRange, "its files have " + std::to_string(bytes) +
                                             " bytes, and may have " + std::to_string(bytes_max));
}

std::string ConfigOf(const HubTree& chosen, HubKind kind) {
  if (kind == HubKind::kModel) return kModelConfig;
  return FindHubFile(chosen, kAdapterConfig) != nullptr ? kAdapterConfig : kBundleManifest;
}

bool HasShards(const HubTree& chosen) { return FindHubFile(chosen, kWeightsIndex) != nullptr; }

Result<HubTree> ShardsOfIndex(const HubTree& tree, const std::string& index_text) {
  ASSIGN_OR_RETURN(const std::set<std::string> names, ShardNames(index_text));
  HubTree shards;
  for (const std::string& name : names) {
    const HubFile* const file = FindHubFile(tree, name);
    if (file == nullptr) {
      return DataLossError(std::string(kWeightsIndex) + " names " + name +
                           ", which the repository does not have");
    }
    shards.push_back(*file);
  }
  return shards;
}

Status CheckHubFolder(const std::string& folder, HubKind kind) {
  const auto check = [&](const std::string& name) -> Status {
    if (FileExists(folder + "/" + name)) return OkStatus();
    return NotFoundError(folder + " has no " + name);
  };
  if (kind == HubKind::kEither) {
    kind = FileExists(folder + "/" + kModelConfig) ? HubKind::kModel : HubKind::kAdapter;
  }
  if (kind == HubKind::kAdapter) {
    if (FileExists(folder + "/" + kBundleManifest)) return OkStatus();
    for (const char* const name : kPeftFiles) RETURN_IF_ERROR(check(name));
    return OkStatus();
  }
  RETURN_IF_ERROR(check(kModelConfig));
  if (FileExists(folder + "/" + kWholeWeights)) return OkStatus();
  RETURN_IF_ERROR(check(kWeightsIndex));
  ASSIGN_OR_RETURN(const std::string text, ReadFile(folder + "/" + kWeightsIndex, kIndexBytesMax));
  ASSIGN_OR_RETURN(const std::set<std::string> names, ShardNames(text));
  for (const std::string& name : names) RETURN_IF_ERROR(check(name));
  return OkStatus();
}

}  // namespace graft
