#include "adapters/peft_folder.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "adapters/peft_bytes.h"
#include "adapters/peft_config.h"
#include "adapters/prompt_config.h"
#include "base/adapter_files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "kernels/lora/lora.h"
#include "model/lora_module.h"
#include "model/safetensors.h"

namespace graft {
namespace {

constexpr int64_t kManifestBytesMax = int64_t{1} << 20;
constexpr int kManifestFormat = 1;

std::string HashOf(const PeftContent& content, const AdapterTextFiles& texts) {
  if (content.reading != nullptr) return content.reading->Hash(texts);
  Sha256 hash;
  for (const PeftFolder& folder : content.folders) {
    HashFile(hash, folder.config);
    HashFile(hash, folder.weights.view());
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
                     const PeftContent& content) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  if (!json.is_object()) return InvalidArgumentError("expected a JSON object");
  if (json.value("format", Json()) != kManifestFormat) {
    return UnimplementedError("\"format\" is not 1, the only one that this program knows");
  }
  const Json stated = json.value("hash", Json());
  if (stated.is_null() || stated == HashOf(content, {})) return OkStatus();
  ASSIGN_OR_RETURN(const AdapterTextFiles texts, ReadAdapterTextFiles(path, jail));
  const std::string hash = HashOf(content, texts);
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
// In place of all files of weights that are read.
constexpr OtherWeights kOtherFormats[] = {
    {"adapters.npz",
     "is of an early mlx-lm, and is not read; save its arrays as adapters.safetensors, under the "
     "same names"},
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
  if (!FileExists(AdapterFilePath(path, kPeftFiles[1]))) {
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

// The config is read, the weights are not yet.
Result<OpenedAdapterFolder> OpenFolder(const std::string& path, int64_t weights_bytes_max,
                                       const FileJail& jail) {
  OpenedAdapterFolder folder;
  folder.path = path;
  Result<std::string> config = jail.Read(path + "/" + kPeftFiles[0], kPeftConfigBytesMax);
  if (config.status().code() == StatusCode::kNotFound) {
    const std::string below = TellAdaptersBelow(path);
    if (!below.empty()) return NotFoundError(path + ": " + below);
  }
  RETURN_IF_ERROR(config.status());
  folder.config = *std::move(config);
  RETURN_IF_ERROR(CheckOtherWeights(path));
  folder.label = AdapterFilePath(path, kPeftFiles[1]);
  ASSIGN_OR_RETURN(folder.weights, jail.Open(folder.label, weights_bytes_max));
  return folder;
}

// Looks at how the weights begin: a copy from another machine has PEFT's name, whatever its form.
Result<bool> IsOfOtherForm(const OpenedAdapterFolder& folder) {
  if (!folder.weights.has_value()) return false;
  std::string begin(static_cast<size_t>(std::min(folder.weights->bytes(), kWeightsBeginBytes)), 0);
  RETURN_IF_ERROR(folder.weights->ReadAt(0, static_cast<int64_t>(begin.size()), begin.data()));
  return folder.label.ends_with(kOtherWeightsFiles[0]) || IsOtherForm(folder.config, begin);
}

// Reads the weights of all folders, and puts what PEFT would have written in place of others.
Status ReadWeightsOf(ContentReading& reading, bool hashes) {
  std::vector<size_t> others;
  for (size_t i = 0; i < reading.folders().size(); ++i) {
    ASSIGN_OR_RETURN(const bool is_other, IsOfOtherForm(reading.folders()[i]));
    if (is_other) others.push_back(i);
  }
  RETURN_IF_ERROR(reading.Read(hashes && others.empty()));
  for (const size_t i : others) {
    const OpenedAdapterFolder& folder = reading.folders()[i];
    try {
      ASSIGN_OR_RETURN(PeftBytes bytes,
                       ToPeftBytes(folder.config, reading.weights(i), folder.label));
      reading.Replace(i, std::move(bytes));
    } catch (const std::bad_alloc&) {
      return ResourceExhaustedError("the memory has no room at the moment for what " +
                                    folder.label + " becomes");
    }
  }
  return OkStatus();
}

// Nothing where the bundle has no such folder.
Result<OpenedAdapterFolder> OpenPart(const std::string& path, int64_t weights_bytes_max,
                                     const FileJail& jail) {
  if (!FileExists(path)) return OpenedAdapterFolder();
  return OpenFolder(path, weights_bytes_max, jail);
}

bool IsBundle(const std::string& path) {
  return !FileExists(path + "/" + kPeftFiles[0]) && FileExists(path + "/" + kBundleManifest);
}

// Reads the weights of what was opened; they are hashed beside unless the hash is known.
Status ReadOpened(std::vector<OpenedAdapterFolder> folders, int64_t since_ns,
                  const AdapterReadHelp& help, PeftContent* content) {
  const auto reading = std::make_shared<ContentReading>(std::move(folders), since_ns, help);
  RETURN_IF_ERROR(ReadWeightsOf(*reading, !reading->KnownHash(content->texts).has_value()));
  for (size_t i = 0; i < reading->folders().size(); ++i) {
    const OpenedAdapterFolder& folder = reading->folders()[i];
    content->folders.push_back({folder.path, folder.config, reading->weights(i), folder.label});
  }
  content->reading = reading;
  return OkStatus();
}

Status CheckParts(const std::string& path, const PeftContent& content) {
  const PeftFolder& lora = content.folders[0];
  const PeftFolder& prompt = content.folders[1];
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
  int64_t elements = int64_t{2} * model.vocab_size * model.hidden_size + model.vocab_size +
                     (model.num_head_words() + model.hidden()) * kLoraRankMax;
  for (const LoraModule module : model.lora_modules()) {
    const LoraModuleShape shape = ShapeOfLoraModule(model, module);
    elements += model.num_layers * (shape.in + shape.out) * kLoraRankMax;
  }
  return kSafetensorsHeaderBytesMax + elements * int64_t{sizeof(float)};
}

Result<PeftFolder> ReadPeftFolder(const std::string& path, int64_t weights_bytes_max,
                                  const FileJail& jail) {
  ASSIGN_OR_RETURN(OpenedAdapterFolder opened, OpenFolder(path, weights_bytes_max, jail));
  std::vector<OpenedAdapterFolder> folders;
  folders.push_back(std::move(opened));
  ContentReading reading(std::move(folders), FileTimeNow(), {});
  RETURN_IF_ERROR(ReadWeightsOf(reading, /*hashes=*/false));
  const OpenedAdapterFolder& read = reading.folders()[0];
  return PeftFolder{path, read.config, reading.weights(0), read.label};
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

std::string AdapterHash(const PeftFolder& folder) {
  Sha256 hash;
  HashFile(hash, folder.config);
  HashFile(hash, folder.weights.view());
  return hash.HexDigest();
}

Result<PeftContent> ReadAdapter(const std::string& path, int64_t weights_bytes_max,
                                const FileJail& jail, TextFileUse use,
                                const AdapterReadHelp& help) {
  const int64_t since_ns = FileTimeNow();
  PeftContent content;
  if (use == TextFileUse::kContent) {
    ASSIGN_OR_RETURN(content.texts, ReadAdapterTextFiles(path, jail));
  }
  std::vector<OpenedAdapterFolder> opened;
  const auto open = [&](Result<OpenedAdapterFolder> folder) -> Status {
    if (folder.ok()) opened.push_back(std::move(*folder));
    return folder.status();
  };
  content.is_bundle = IsBundle(path);
  if (!content.is_bundle) {
    RETURN_IF_ERROR(open(OpenFolder(path, weights_bytes_max, jail)));
    RETURN_IF_ERROR(ReadOpened(std::move(opened), since_ns, help, &content));
    return content;
  }
  for (const char* const part : {"/lora", "/prompt"}) {
    RETURN_IF_ERROR(open(OpenPart(path + part, weights_bytes_max, jail)));
  }
  RETURN_IF_ERROR(ReadOpened(std::move(opened), since_ns, help, &content));
  RETURN_IF_ERROR(CheckParts(path, content));
  const std::string manifest = path + "/" + kBundleManifest;
  ASSIGN_OR_RETURN(const std::string text, jail.Read(manifest, kManifestBytesMax));
  const Status checked = CheckManifest(text, path, jail, content);
  if (!checked.ok()) return checked.WithContext(manifest);
  return content;
}

std::string RememberedHash(const std::string& path, int64_t weights_bytes_max, const FileJail& jail,
                           TextFileUse use, const AdapterReadHelp& help) {
  if (help.memory == nullptr || IsBundle(path)) return "";
  AdapterTextFiles texts;
  if (use == TextFileUse::kContent) {
    Result<AdapterTextFiles> found = ReadAdapterTextFiles(path, jail);
    if (!found.ok()) return "";
    texts = std::move(*found);
  }
  Result<OpenedAdapterFolder> opened = OpenFolder(path, weights_bytes_max, jail);
  if (!opened.ok()) return "";
  std::vector<OpenedAdapterFolder> folders;
  folders.push_back(std::move(*opened));
  return ContentReading(std::move(folders), FileTimeNow(), help).KnownHash(texts).value_or("");
}

std::string ContentHash(const PeftContent& content) { return HashOf(content, content.texts); }

Result<std::string> HashOfFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const PeftContent content,
                   ReadAdapter(path, std::numeric_limits<int64_t>::max()));
  return ContentHash(content);
}

std::string HashAs(const std::string& wanted, PeftContent* content) {
  std::string hash = ContentHash(*content);
  if (wanted.empty() || hash == wanted || content->texts.empty()) return hash;
  if (HashOf(*content, {}) != wanted) return hash;
  content->texts.clear();
  return wanted;
}

std::string HashWithoutTexts(const std::string& wanted, const std::string& path,
                             const FileJail& jail, const PeftContent& content) {
  std::string hash = ContentHash(content);
  if (wanted.empty() || hash == wanted) return hash;
  const Result<AdapterTextFiles> texts = ReadAdapterTextFiles(path, jail);
  return texts.ok() && HashOf(content, *texts) == wanted ? wanted : hash;
}

}  // namespace graft
