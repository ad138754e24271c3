#include "model/adapter_folder.h"

#include <cstdint>

#include "base/adapter_files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "kernels/lora/lora.h"
#include "model/lora_module.h"
#include "model/peft_config.h"
#include "model/prompt_config.h"
#include "model/safetensors.h"

namespace graft {
namespace {

void HashFile(Sha256& hash, const std::string& bytes) {
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bytes.size() >> (8 * i));
  hash.Update(length, sizeof(length));
  hash.Update(bytes);
}

constexpr int64_t kManifestBytesMax = int64_t{1} << 20;
constexpr int kManifestFormat = 1;

// Whether the files are those that graft.json was written for; what else it tells is for people.
Status CheckManifest(const std::string& text, const std::string& hash) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  if (!json.is_object()) return InvalidArgumentError("expected a JSON object");
  if (json.value("format", Json()) != kManifestFormat) {
    return UnimplementedError("\"format\" is not 1, the only one that this program knows");
  }
  const Json stated = json.value("hash", Json());
  if (stated.is_null() || stated == hash) return OkStatus();
  return DataLossError("\"hash\" is " + stated.dump(-1, ' ', true, Json::error_handler_t::replace) +
                       ", but the files beside it have " + hash +
                       ": they were changed since it was written");
}

// Nothing where the bundle has no such folder.
Result<AdapterFolder> ReadPart(const std::string& path, int64_t weights_bytes_max,
                               const FileJail& jail) {
  if (!FileExists(path)) return AdapterFolder();
  return ReadAdapterFolder(path, weights_bytes_max, jail);
}

Status CheckParts(const std::string& path, const AdapterContent& content) {
  const AdapterFolder& lora = content.folders[0];
  const AdapterFolder& prompt = content.folders[1];
  if (lora.path.empty() && prompt.path.empty()) {
    return NotFoundError(path + " has a graft.json, and neither a folder lora nor prompt");
  }
  if (!lora.path.empty() && IsPromptConfig(lora.config)) {
    return InvalidArgumentError(lora.path + " is a prompt; its place is the folder prompt");
  }
  if (!prompt.path.empty() && !IsPromptConfig(prompt.config)) {
    return InvalidArgumentError(prompt.path +
                                " is no prompt- or prefix-tuning adapter; LoRA's place is the "
                                "folder lora");
  }
  return OkStatus();
}

}  // namespace

int64_t AdapterWeightsBytesMax(const ModelConfig& model) {
  int64_t elements = int64_t{2} * model.vocab_size * model.hidden_size;
  for (const LoraModule module : kAllLoraModules) {
    const LoraModuleShape shape = ShapeOfLoraModule(model, module);
    elements += model.num_layers * (shape.in + shape.out) * kLoraRankMax;
  }
  return kSafetensorsHeaderBytesMax + elements * int64_t{sizeof(float)};
}

Result<AdapterFolder> ReadAdapterFolder(const std::string& path, int64_t weights_bytes_max,
                                        const FileJail& jail) {
  AdapterFolder folder;
  folder.path = path;
  ASSIGN_OR_RETURN(folder.config, jail.Read(path + "/adapter_config.json", kPeftConfigBytesMax));
  const std::string weights = path + "/adapter_model.safetensors";
  if (!FileExists(weights) && FileExists(path + "/adapter_model.bin")) {
    return UnimplementedError(path +
                              ": adapter_model.bin is a pickle, which can run code; save the "
                              "adapter again with safe_serialization=True");
  }
  ASSIGN_OR_RETURN(folder.weights, jail.Read(weights, weights_bytes_max));
  return folder;
}

std::string AdapterHash(const AdapterFolder& folder) {
  Sha256 hash;
  HashFile(hash, folder.config);
  HashFile(hash, folder.weights);
  return hash.HexDigest();
}

Result<AdapterContent> ReadAdapter(const std::string& path, int64_t weights_bytes_max,
                                   const FileJail& jail) {
  const std::string manifest = path + "/" + kBundleManifest;
  AdapterContent content;
  if (FileExists(path + "/adapter_config.json") || !FileExists(manifest)) {
    content.folders.resize(1);
    ASSIGN_OR_RETURN(content.folders[0], ReadAdapterFolder(path, weights_bytes_max, jail));
    return content;
  }
  content.is_bundle = true;
  content.folders.resize(2);
  ASSIGN_OR_RETURN(content.folders[0], ReadPart(path + "/lora", weights_bytes_max, jail));
  ASSIGN_OR_RETURN(content.folders[1], ReadPart(path + "/prompt", weights_bytes_max, jail));
  RETURN_IF_ERROR(CheckParts(path, content));
  ASSIGN_OR_RETURN(const std::string text, jail.Read(manifest, kManifestBytesMax));
  const Status checked = CheckManifest(text, ContentHash(content));
  if (!checked.ok()) return checked.WithContext(manifest);
  return content;
}

std::string ContentHash(const AdapterContent& content) {
  Sha256 hash;
  for (const AdapterFolder& folder : content.folders) {
    HashFile(hash, folder.config);
    HashFile(hash, folder.weights);
  }
  return hash.HexDigest();
}

}  // namespace graft
