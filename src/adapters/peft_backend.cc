#include "adapters/peft_backend.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "adapters/base_copies.h"
#include "adapters/host_sum.h"
#include "adapters/lora_check.h"
#include "adapters/lora_effect.h"
#include "adapters/peft_folder.h"
#include "adapters/torch_weights.h"
#include "base/adapter_files.h"
#include "base/json.h"
#include "base/log.h"
#include "cache/content_sum.h"
#include "model/family.h"

namespace graft {
namespace {

constexpr size_t kHashDigitsShown = 12;

struct LoadedAdapter {
  std::string hash;
  std::string base_model;
  std::string peft_version;
  AdapterWeights weights;
  std::vector<int32_t> invocation_tokens;  // see AdapterFacts
  std::string left_out = "";               // the same
  AdapterTextPtr text = nullptr;
  bool leaves_texts_out = false;  // see AdapterFacts
  int64_t num_tower_tensors = 0;  // that ModelConfig::text_only leaves out
  // Under way over the weights, so that it goes before them; to be finished before these may be
  // used.
  std::optional<LoraSelfTest> test;
};

// What reading takes besides the folder, the same for all of a backend's.
struct ReadingContext {
  const ModelConfig& config;
  const ServedTypes& types;
  const FileJail& jail;
  const AdapterTextHooks& hooks;
  AdapterReadHelp help;
  AdapterRules rules = {};
};

// Longer than any tokenizer's file.
constexpr int64_t kVocabularyBytesMax = int64_t{256} << 20;

// Finds files among those that were read with an adapter.
ReadBesideAdapter ReaderOf(const AdapterTextFiles& files) {
  return [&files](const std::string& name) -> Result<std::optional<std::string>> {
    for (const auto& [file, bytes] : files) {
      if (file == name) return std::optional(bytes);
    }
    return std::optional<std::string>();
  };
}

Result<AdapterTextPtr> TextOf(const std::string& path, const AdapterTextFiles& files,
                              const AdapterTextHooks& hooks) {
  if (files.empty() || !hooks.read) return AdapterTextPtr();
  Result<AdapterTextPtr> text = hooks.read(ReaderOf(files));
  if (!text.ok()) return text.status().WithContext(path);
  return text;
}

void WarnOf(const std::string& path, const AdapterTextPtr& text, const AdapterTextHooks& hooks) {
  if (text == nullptr || !hooks.warning) return;
  const std::string warning = hooks.warning(*text);
  if (!warning.empty()) LOG_WARN("{}: {}", path, warning);
}

// Such files are most of what lies in many folders, so that they are read once they are wanted.
Status CheckVocabulary(const std::string& path, const FileJail& jail,
                       const AdapterTextHooks& hooks) {
  if (!hooks.check_vocabulary) return OkStatus();
  const auto is_there = [&](const char* file) {
    return FileExists(path + "/" + file) && !jail.LeadsOut(path + "/" + file);
  };
  if (!std::any_of(kVocabularyFiles.begin(), kVocabularyFiles.end(), is_there)) return OkStatus();
  const Status checked =
      hooks.check_vocabulary([&](const std::string& file) -> Result<std::optional<std::string>> {
        if (!is_there(file.c_str())) return std::optional<std::string>();
        ASSIGN_OR_RETURN(std::string bytes, jail.Read(path + "/" + file, kVocabularyBytesMax));
        return std::optional<std::string>(std::move(bytes));
      });
  return checked.ok() ? checked : checked.WithContext(path);
}

// Errors carry the path.
Result<LoadedAdapter> LoadPrompt(const PeftFolder& folder, const SafetensorsFile& file,
                                 const ReadingContext& context) {
  const Result<PromptConfig> prompt = ParsePromptConfig(folder.config, context.config);
  if (!prompt.ok()) return prompt.status().WithContext(folder.path + "/adapter_config.json");
  Result<VirtualTokens> tokens = VirtualTokens::Load(file, *prompt, context.config, context.types);
  if (!tokens.ok()) return tokens.status().WithContext(folder.path);
  return LoadedAdapter{
      "",
      prompt->base_model,
      prompt->peft_version,
      {LoraWeights::None(context.config, context.types.adapters), std::move(*tokens)}};
}

// PEFT warns of such a key, and does as its layers are.
std::string TellFanIn(const PeftConfig& peft, const ModelConfig& config) {
  if (!peft.fan_in_fan_out || FamilyOf(config.architecture).transposes_weights) return "";
  return "fan_in_fan_out is true, but this model's weights are not transposed: taken for false, as "
         "PEFT does it";
}

std::string TellTowers(const std::vector<std::string>& towers, const ModelConfig& config) {
  if (towers.empty()) return "";
  return std::to_string(towers.size()) + " tensors are of towers of " +
         std::string(ClassNameOf(config)) + " and are left out (--text-only): " + towers.front() +
         (towers.size() > 1 ? ", ..." : "");
}

std::string TellLeftOut(const SafetensorsFile& file, const PeftConfig& peft,
                        const ModelConfig& config) {
  std::string all;
  for (const std::string& text :
       {TellSkippedTargetsOf(file, peft, config), TellFanIn(peft, config),
        TellBaseCopies(peft.base_copies), TellTowers(TowerTensors(file, config), config)}) {
    if (!text.empty()) all += (all.empty() ? "" : "; ") + text;
  }
  return all;
}

Result<LoadedAdapter> LoadLora(const PeftFolder& folder, SafetensorsFile file,
                               const ReadingContext& context) {
  const ModelConfig& config = context.config;
  Result<PeftConfig> peft = ParsePeftConfig(folder.config);
  if (!peft.ok()) return peft.status().WithContext(folder.path + "/adapter_config.json");
  peft->strict_targets = context.rules.strict_targets;
  for (const int32_t token : peft->invocation_tokens) {
    if (token < config.vocab_size) continue;
    return InvalidArgumentError(folder.path +
                                "/adapter_config.json: alora_invocation_tokens holds token " +
                                std::to_string(token) + ", the model's vocabulary ends at " +
                                std::to_string(config.vocab_size - 1));
  }
  peft->base_copies = BaseCopiesIn(file, config);
  const Status copies = CheckBaseCopies(file, peft->base_copies, config, context.rules.base_folder);
  if (!copies.ok()) return copies.WithContext(folder.label);
  Result<LoraWeights> weights =
      LoraWeights::Load(file, *peft, config, context.types.adapters, context.help.crew);
  if (!weights.ok()) return weights.status().WithContext(folder.path);
  const auto num_tower_tensors = static_cast<int64_t>(TowerTensors(file, config).size());
  std::string left_out = TellLeftOut(file, *peft, config);
  Result<LoraSelfTest> test =
      LoraSelfTest::Begin(std::move(file), *peft, config, *weights, context.help.crew);
  if (!test.ok()) return test.status().WithContext(folder.path);
  return LoadedAdapter{.hash = "",
                       .base_model = peft->base_model,
                       .peft_version = peft->peft_version,
                       .weights = std::move(*weights),
                       .invocation_tokens = peft->invocation_tokens,
                       .left_out = std::move(left_out),
                       .num_tower_tensors = num_tower_tensors,
                       .test = std::move(*test)};
}

Result<LoadedAdapter> LoadFolder(const PeftFolder& folder, const ReadingContext& context) {
  ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::FromBytes(folder.weights, folder.label));
  if (IsPromptConfig(folder.config)) return LoadPrompt(folder, file, context);
  return LoadLora(folder, std::move(file), context);
}

bool DoesNothing(const AdapterWeights& weights, const ModelConfig& config) {
  return !weights.virtual_tokens.has_value() && ChangesNothing(weights.lora, config);
}

// Without the hooks that understand them files of texts say nothing, and are no part of a content.
TextFileUse UseOf(const AdapterTextHooks& hooks) {
  return hooks.read ? TextFileUse::kContent : TextFileUse::kNone;
}

std::string HashFor(const std::string& wanted, const std::string& path, const FileJail& jail,
                    const AdapterTextHooks& hooks, PeftContent* content) {
  return hooks.read ? HashAs(wanted, content) : HashWithoutTexts(wanted, path, jail, *content);
}

// `wanted`: the hash that it is known by; "": none. The weights are converted and tested while
// their bytes are still hashed.
Result<LoadedAdapter> LoadAdapter(const std::string& path, const std::string& wanted,
                                  const ReadingContext& context) {
  ASSIGN_OR_RETURN(PeftContent content,
                   ReadAdapter(path, AdapterWeightsBytesMax(context.config), context.jail,
                               UseOf(context.hooks), context.help));
  std::optional<LoadedAdapter> all;
  for (const PeftFolder& folder : content.folders) {
    if (folder.path.empty()) continue;  // a bundle without it
    ASSIGN_OR_RETURN(LoadedAdapter part, LoadFolder(folder, context));
    if (all.has_value()) {
      all->weights.virtual_tokens = std::move(part.weights.virtual_tokens);
    } else {
      all = std::move(part);
    }
  }
  const bool has_texts = !content.texts.empty();
  all->hash = HashFor(wanted, path, context.jail, context.hooks, &content);
  ASSIGN_OR_RETURN(all->text, TextOf(path, content.texts, context.hooks));
  all->leaves_texts_out = has_texts && content.texts.empty();
  return std::move(*all);
}

Status FinishTest(const std::string& path, LoraSelfTest* test) {
  if (test == nullptr) return OkStatus();
  const Status tested = test->Finish();
  return tested.ok() ? tested : tested.WithContext(path);
}

// How many times its bytes a file of weights becomes at most, where PEFT's bytes are made of it.
// What is served of these is made when the file itself is gone.
int64_t GrowthMaxOf(std::string_view weights) {
  if (weights.ends_with(kPeftFiles[1])) return 1;
  return weights.ends_with(".bin") ? kTorchGrowthMax : 2;
}

}  // namespace

Result<std::string> PeftBackend::Hash(const std::string& path) { return HashAs(path, ""); }

Result<std::string> PeftBackend::HashAs(const std::string& path, const std::string& hash) {
  const int64_t bytes_max = AdapterWeightsBytesMax(config_);
  std::string known = RememberedHash(path, bytes_max, jail_, UseOf(texts_), help_);
  if (!known.empty() && (hash.empty() || hash == known)) return known;
  const ReadsBeside::Reading reading(reads_beside_, BytesToFetch(path));
  const WorkCrew::Presence here(help_.crew);
  ASSIGN_OR_RETURN(PeftContent content, ReadAdapter(path, bytes_max, jail_, UseOf(texts_), help_));
  return HashFor(hash, path, jail_, texts_, &content);
}

Result<AdapterTextPtr> PeftBackend::ReadText(const std::string& path) {
  if (!texts_.read) return AdapterTextPtr();
  ASSIGN_OR_RETURN(const AdapterTextFiles files, ReadAdapterTextFiles(path, jail_));
  ASSIGN_OR_RETURN(AdapterTextPtr text, TextOf(path, files, texts_));
  WarnOf(path, text, texts_);
  return text;
}

Result<AdapterFacts> PeftBackend::Read(const std::string& path) { return ReadAs(path, ""); }

Result<AdapterFacts> PeftBackend::ReadAs(const std::string& path, const std::string& hash) {
  const bool is_there = !hash.empty() && store_.Has(hash);
  const ReadsBeside::Reading reading(reads_beside_, is_there ? 0 : BytesToFetch(path));
  ASSIGN_OR_RETURN(const HostStore::Held held, Fetch(path, hash));
  WarnOf(path, held->facts.text, texts_);
  return held->facts;
}

Status PeftBackend::CheckVocabularyOnce(const std::string& path) {
  if (!texts_.check_vocabulary) return OkStatus();
  constexpr size_t kRememberedMax = 16384;
  std::string stamps = path;
  for (const char* const file : kVocabularyFiles) {
    const Result<FileStamp> stamp = StampFile(path + "/" + file);
    if (!stamp.ok()) continue;
    stamps += std::string("\n") + file + " " + std::to_string(stamp->bytes) + " " +
              std::to_string(stamp->modified_ns);
  }
  {
    const std::lock_guard lock(vocabularies_mutex_);
    if (vocabularies_.contains(stamps)) return OkStatus();
  }
  RETURN_IF_ERROR(CheckVocabulary(path, jail_, texts_));
  const std::lock_guard lock(vocabularies_mutex_);
  if (vocabularies_.size() >= kRememberedMax) vocabularies_.clear();
  vocabularies_.insert(std::move(stamps));
  return OkStatus();
}

Result<HostStore::Held> PeftBackend::Fetch(const std::string& path, const std::string& hash) {
  if (!hash.empty()) {
    HostStore::Held held = store_.Find(hash);
    if (held) return held;
  }
  const WorkCrew::Presence here(help_.crew);
  return TryToRead(path, hash, {.crew = help_.crew});
}

Result<HostStore::Held> PeftBackend::FetchAhead(const std::string& path, const std::string& hash) {
  const ReadsBeside::Reading reading(reads_beside_, BytesToFetch(path));
  return TryToRead(path, hash, {.evicts = false});
}

Result<HostStore::Held> PeftBackend::TryToRead(const std::string& path, const std::string& hash,
                                               const HostPut& how) {
  try {
    return ReadFolder(path, hash, how);
  } catch (const std::bad_alloc& error) {
    return ResourceExhaustedError(path + " found no memory (" + error.what() +
                                  "); try again later, or start the server with less --host-gib");
  }
}

Result<HostStore::Held> PeftBackend::FetchForRequests(const std::string& path,
                                                      const std::string& hash) {
  Result<HostStore::Held> held = Fetch(path, hash);
  const StatusCode code = held.status().code();
  if (code != StatusCode::kInvalidArgument && code != StatusCode::kUnimplemented) return held;
  return DataLossError(held.status().message());
}

int64_t PeftBackend::BytesToFetch(const std::string& path) const {
  const int64_t bytes_max = AdapterWeightsBytesMax(config_);  // what has more is refused unread
  int64_t bytes = 0;
  for (const char* const file : {"", "/lora", "/prompt"}) {
    const std::string weights = AdapterFilePath(path + file, kPeftFiles[1]);
    const Result<FileStamp> stamp = StampFile(weights);
    if (!stamp.ok() || stamp->bytes > bytes_max) continue;
    bytes += stamp->bytes * GrowthMaxOf(weights);
  }
  // Files of 16 bits become twice as large where fp32 is served.
  return types_.adapters == DType::kF32 ? 3 * bytes : 2 * bytes;
}

Result<HostStore::Held> PeftBackend::ReadFolder(const std::string& path, const std::string& hash,
                                                const HostPut& how) {
  RETURN_IF_ERROR(CheckVocabularyOnce(path));
  ASSIGN_OR_RETURN(LoadedAdapter adapter, LoadAdapter(path, hash,
                                                      {.config = config_,
                                                       .types = types_,
                                                       .jail = jail_,
                                                       .hooks = texts_,
                                                       .help = {how.crew, help_.memory},
                                                       .rules = rules_}));
  if (!hash.empty() && adapter.hash != hash) {
    return FailedPreconditionError(
        path + " has changed: it held " + hash.substr(0, kHashDigitsShown) + " and holds " +
        adapter.hash.substr(0, kHashDigitsShown) + " now; load it again to serve that");
  }
  HostAdapter described =
      DescribeHostAdapter(adapter.weights, config_, adapter.hash, adapter.base_model);
  described.facts.invocation_tokens = std::move(adapter.invocation_tokens);
  described.facts.text = std::move(adapter.text);
  described.facts.leaves_texts_out = adapter.leaves_texts_out;
  described.facts.changes_nothing = DoesNothing(adapter.weights, config_);
  described.facts.left_out = std::move(adapter.left_out);
  return Keep(path, std::move(described), std::move(adapter.weights), how,
              adapter.test.has_value() ? &*adapter.test : nullptr);
}

Result<HostStore::Held> PeftBackend::Keep(const std::string& what, HostAdapter whole,
                                          AdapterWeights&& weights, HostPut how,
                                          LoraSelfTest* test) {
  Status tested;
  if (test != nullptr) {
    how.may_be_found = [&] {
      tested = FinishTest(what, test);
      return tested.ok();
    };
  }
  if (slicer_.keeps_all()) {
    HostStore::Held held = store_.Put(std::move(whole), std::move(weights), how);
    RETURN_IF_ERROR(tested);
    return held;
  }
  whole.facts = slicer_.Slice(whole).facts;
  const int64_t bytes = whole.weight_bytes;
  // Those that are just being copied let go of their room.
  if (how.evicts) how.wait_ns = 30'000'000'000;
  HostStore::Held held = store_.Put(std::move(whole), std::move(weights), how);
  RETURN_IF_ERROR(tested);
  if (held.is_in_store()) return held;
  return ResourceExhaustedError(
      what + " has " + std::to_string(bytes) +
      " bytes, for which the memory that the ranks share " +
      "has no room beside the adapters under way; try again later, or start with more --host-gib");
}

Result<HostStore::Held> PeftBackend::FetchSum(std::vector<AdapterPart> parts,
                                              const OnRead& on_read) {
  std::unordered_map<std::string, HostStore::Held> held;  // by hash
  for (AdapterPart& part : parts) {
    ASSIGN_OR_RETURN(HostStore::Held fetched, FetchForRequests(part.path, part.hash));
    if (part.hash.empty() && on_read) on_read(part.key, fetched->facts);
    part.hash = fetched->facts.hash;
    held.insert_or_assign(part.hash, std::move(fetched));
  }
  SortParts(&parts);
  const std::string hash = ContentSumHash(parts);
  if (HostStore::Held sum = Find(hash)) return sum;
  std::string what = "the sum of";
  std::vector<HostAddend> addends;
  for (const AdapterPart& part : parts) {
    // Clients read it: no path, and a folder is called as its adapter is.
    what +=
        (addends.empty() ? " " : " and ") + std::filesystem::path(part.path).filename().string();
    addends.push_back({.adapter = &*held.at(part.hash), .weight = part.weight});
  }
  try {
    Result<AdapterWeights> weights = AddAdapters(addends, config_, types_.adapters);
    if (!weights.ok()) return weights.status().WithContext(what);
    const AdapterFacts& first = addends.front().adapter->facts;
    HostAdapter whole = DescribeHostAdapter(*weights, config_, hash, first.base_model);
    whole.facts.invocation_tokens = first.invocation_tokens;
    held.clear();  // their room may be the sum's
    return Keep(what, std::move(whole), std::move(*weights), {.crew = help_.crew});
  } catch (const std::bad_alloc& error) {
    return ResourceExhaustedError(what + " found no memory (" + error.what() +
                                  "); try again later, or start the server with less --host-gib");
  }
}

namespace {

// The projections that LoRA adapts, and in which layers; nothing is told of none.
void TellModules(const LoraWeights& weights, const ModelConfig& config, OrderedJson* json) {
  struct ModuleFacts {
    std::set<int32_t> ranks;
    std::set<float> scales;
    int32_t num_layers = 0;
  };
  std::map<LoraModule, ModuleFacts> modules;
  std::set<int32_t> layers;
  OrderedJson head;
  for (const LoraTarget& target : weights.targets()) {
    if (config.is_head(target.layer)) {
      head = {{"ranks", {target.rank}}, {"scales", {target.scale}}};
      continue;
    }
    // The first of several stacked modules stands for all of them.
    if (StoredProjectionOf(config, target.module).first != target.module) continue;
    ModuleFacts& facts = modules[target.module];
    facts.ranks.insert(target.rank);
    facts.scales.insert(target.scale);
    ++facts.num_layers;
    layers.insert(target.layer);
  }
  if (!layers.empty()) {
    (*json)["layers"] = {
        {"first", *layers.begin()}, {"last", *layers.rbegin()}, {"count", layers.size()}};
  }
  (*json)["modules"] = OrderedJson::object();
  for (const auto& [module, facts] : modules) {
    (*json)["modules"][NameOfStored(config, StoredProjectionOf(config, module))] = {
        {"ranks", facts.ranks}, {"scales", facts.scales}, {"layers", facts.num_layers}};
  }
  if (head.is_null()) return;
  (*json)["modules"][LoraModulePath(config, config.num_layers, LoraModule{})] = std::move(head);
}

void TellText(const AdapterTextPtr& text, OrderedJson* json) {
  const AdapterText told = text == nullptr ? AdapterText() : *text;
  (*json)["chat_template"] = told.brings_template() ? "adapter" : "base";
  (*json)["stop_token_ids"] = told.stop_token_ids;
  if (!told.bos_token.empty()) (*json)["bos_token"] = told.bos_token;
  if (!told.eos_token.empty()) (*json)["eos_token"] = told.eos_token;
}

}  // namespace

Result<OrderedJson> InspectAdapter(const std::string& path, const ModelConfig& config,
                                   const ServedTypes& types, const AdapterTextHooks& texts,
                                   const FileJail& jail, AdapterTextPtr* text, AdapterRules rules) {
  RETURN_IF_ERROR(CheckVocabulary(path, jail, texts));
  ASSIGN_OR_RETURN(LoadedAdapter adapter,
                   LoadAdapter(path, "", {config, types, jail, texts, {}, std::move(rules)}));
  RETURN_IF_ERROR(FinishTest(path, adapter.test.has_value() ? &*adapter.test : nullptr));
  const LoraWeights& lora = adapter.weights.lora;
  const std::optional<VirtualTokens>& tokens = adapter.weights.virtual_tokens;
  OrderedJson json = {{"path", path},
                      {"hash", adapter.hash},
                      {"base_model", adapter.base_model},
                      {"peft_version", adapter.peft_version},
                      {"rank_max", lora.rank_max()},
                      {"bytes", lora.bytes() + (tokens ? tokens->buffer().bytes() : 0)},
                      {"served_dtype", std::string(DTypeName(types.adapters))}};
  if (tokens.has_value()) {
    const bool is_embedding = tokens->kind() == VirtualTokenKind::kEmbedding;
    json["virtual_tokens"] = {{"count", tokens->num_tokens()},
                              {"kind", is_embedding ? "embeddings" : "keys and values"}};
  }
  if (!adapter.invocation_tokens.empty()) {
    json["alora_invocation_tokens"] = adapter.invocation_tokens;
  }
  if (adapter.num_tower_tensors > 0) json["tower_tensors_left_out"] = adapter.num_tower_tensors;
  TellText(adapter.text, &json);
  json["changes_nothing"] = DoesNothing(adapter.weights, config);
  if (!adapter.left_out.empty()) json["left_out"] = adapter.left_out;
  TellModules(lora, config, &json);
  if (text != nullptr) *text = adapter.text;
  return json;
}

}  // namespace graft
