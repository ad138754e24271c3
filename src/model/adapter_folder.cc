#include "model/adapter_folder.h"

#include <cstdint>
#include <limits>
#include <utility>

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

std::string HashOf(const std::vector<AdapterFolder>& folders, const AdapterTextFiles& texts) {
  Sha256 hash;
  for (const AdapterFolder& folder : folders) {
    HashFile(hash, folder.config);
    HashFile(hash, folder.weights);
  }
  for (const auto& [file, bytes] : texts) {
    HashFile(hash, file);
    HashFile(hash, bytes);
  }
  return hash.HexDigest();
}

// Whether the files of the bundle in `path` are those that graft.json was written for, with those
// of texts or without; what else it tells is for people.
Status CheckManifest(const std::string& text, const std::string& path, const FileJail& jail,
                     const AdapterContent& content) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  if (!json.is_object()) return InvalidArgumentError("expected a JSON object");
  if (json.value("format", Json()) != kManifestFormat) {
    return UnimplementedError("\"format\" is not 1, the only one that this program knows");
  }
  const Json stated = json.value("hash", Json());
  if (stated.is_null() || stated == HashOf(content.folders, {})) return OkStatus();
  ASSIGN_OR_RETURN(const AdapterTextFiles texts, ReadAdapterTextFiles(path, jail));
  const std::string hash = HashOf(content.folders, texts);
  if (stated == hash) return OkStatus();
  return DataLossError("\"hash\" is " + stated.dump(-1, ' ', true, Json::error_handler_t::replace) +
                       ", but the files beside it have " + hash +
                       ": they were changed since it was written");
}

constexpr int64_t kTextFileBytesMax = int64_t{16} << 20;

// What other tools leave, each with what to do about it.
struct OtherWeights {
  const char* file;
  const char* advice;
};
constexpr char kMlxAdvice[] =
    "is mlx-lm's format, which is not read: its matrices are PEFT's transposed, under other names. "
    "Write lora_a [in, rank] as base_model.model.<module>.lora_A.weight [rank, in] and lora_b "
    "[rank, out] as .lora_B.weight [out, rank] into adapter_model.safetensors, with PEFT's keys in "
    "adapter_config.json (lora_alpha is mlx-lm's scale times the rank)";
// In place of adapter_model.safetensors.
constexpr OtherWeights kOtherFormats[] = {
    {"adapter_model.bin",
     "is a pickle, which can run code; save the adapter again with safe_serialization=True"},
    {"adapters.safetensors", kMlxAdvice},
    {"adapters.npz", kMlxAdvice},
    {"adapter_model.safetensors.index.json",
     "says that the weights are in several files; save the adapter as one, with a larger "
     "max_shard_size"}};
// Beside it: what was trained as well, and would be left out.
constexpr OtherWeights kFurtherWeights[] = {
    {"new_embeddings.safetensors",
     "has embeddings of new tokens, which are not applied; train the adapter without new tokens"},
    {"new_embeddings.bin",
     "has embeddings of new tokens, which are not applied; train the adapter without new tokens"},
    {"non_lora_trainables.bin",
     "has weights that were trained beside LoRA, which are not applied; remove it if the adapter "
     "is "
     "whole without them"}};

Status CheckOtherWeights(const std::string& path) {
  if (!FileExists(path + "/" + kPeftFiles[1])) {
    for (const auto& [file, advice] : kOtherFormats) {
      if (!FileExists(path + "/" + file)) continue;
      return UnimplementedError(path + ": " + file + " " + advice);
    }
  }
  for (const auto& [file, advice] : kFurtherWeights) {
    if (!FileExists(path + "/" + file)) continue;
    return UnimplementedError(path + ": " + file + " " + advice);
  }
  return OkStatus();
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
  Result<std::string> config = jail.Read(path + "/" + kPeftFiles[0], kPeftConfigBytesMax);
  if (config.status().code() == StatusCode::kNotFound) {
    const std::string below = TellAdaptersBelow(path);
    if (!below.empty()) return NotFoundError(path + ": " + below);
  }
  RETURN_IF_ERROR(config.status());
  folder.config = *std::move(config);
  RETURN_IF_ERROR(CheckOtherWeights(path));
  ASSIGN_OR_RETURN(folder.weights, jail.Read(path + "/" + kPeftFiles[1], weights_bytes_max));
  return folder;
}

Result<AdapterTextFiles> ReadAdapterTextFiles(const std::string& path, const FileJail& jail) {
  AdapterTextFiles texts;
  for (const char* const file : kAdapterTextFiles) {
    const std::string from = path + "/" + file;
    if (!FileExists(from) || jail.LeadsOut(from)) continue;
    ASSIGN_OR_RETURN(std::string bytes, jail.Read(from, kTextFileBytesMax));
    texts.emplace_back(file, std::move(bytes));
  }
  return texts;
}

std::string AdapterHash(const AdapterFolder& folder) {
  Sha256 hash;
  HashFile(hash, folder.config);
  HashFile(hash, folder.weights);
  return hash.HexDigest();
}

Result<AdapterContent> ReadAdapter(const std::string& path, int64_t weights_bytes_max,
                                   const FileJail& jail, TextFileUse use) {
  const std::string manifest = path + "/" + kBundleManifest;
  AdapterContent content;
  if (use == TextFileUse::kContent) {
    ASSIGN_OR_RETURN(content.texts, ReadAdapterTextFiles(path, jail));
  }
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
  const Status checked = CheckManifest(text, path, jail, content);
  if (!checked.ok()) return checked.WithContext(manifest);
  return content;
}

std::string ContentHash(const AdapterContent& content) {
  return HashOf(content.folders, content.texts);
}

Result<std::string> HashOfFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const AdapterContent content,
                   ReadAdapter(path, std::numeric_limits<int64_t>::max()));
  return ContentHash(content);
}

std::string HashAs(const std::string& wanted, AdapterContent* content) {
  std::string hash = ContentHash(*content);
  if (wanted.empty() || hash == wanted || content->texts.empty()) return hash;
  if (HashOf(content->folders, {}) != wanted) return hash;
  content->texts.clear();
  return wanted;
}

std::string HashWithoutTexts(const std::string& wanted, const std::string& path,
                             const FileJail& jail, const AdapterContent& content) {
  std::string hash = ContentHash(content);
  if (wanted.empty() || hash == wanted) return hash;
  const Result<AdapterTextFiles> texts = ReadAdapterTextFiles(path, jail);
  return texts.ok() && HashOf(content.folders, *texts) == wanted ? wanted : hash;
}

}  // namespace graft
