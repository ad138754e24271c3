// graft adapters: list, inspect and verify PEFT folders without serving them, and merge one into
// its base.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/peft_backend.h"
#include "base/adapter_files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/log_format.h"
#include "base/nearest_names.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/merge_adapter.h"
#include "cli/verify_census.h"
#include "engine/folder_jail.h"
#include "request/adapter_name.h"
#include "runtime/adapter_texts.h"
#include "runtime/runtime.h"
#include "text/chat/chat_template.h"

namespace graft {
namespace {

struct AdaptersOptions {
  std::string model;
  std::string adapters;
  std::vector<std::string> roots;
  std::optional<DType> dtype;  // none: the checkpoint's
  AdapterTextUse text = AdapterTextUse::kAdapter;
  bool strict_targets = false;
  bool text_only = false;
  std::vector<std::string> paths;  // of inspect and verify
  std::string adapter;             // of merge, its name
  std::string out;                 // of merge
  std::string census;              // of verify
};

struct Target {
  ModelConfig config;
  DType dtype = DType::kF32;
  AdapterTextHooks texts;
  FileJail jail;  // of the folders in --adapters
  AdapterRules rules;

  // What the base's weights are: "NF4 of bitsandbytes", "bf16".
  std::string WeightsText() const {
    if (config.quantisation.has_value()) return config.quantisation->text;
    return std::string(DTypeName(config.dtype.value_or(dtype)));
  }
  Result<OrderedJson> Inspect(const std::string& path, AdapterTextPtr* text = nullptr) const {
    return InspectAdapter(path, config, TypesOf(dtype), texts, jail, text, rules);
  }
};

Result<Target> LoadTarget(const AdaptersOptions& options) {
  RETURN_IF_ERROR(InitLog("warn"));
  if (options.model.empty()) {
    return InvalidArgumentError("which model are the adapters for? --model DIR, an HF folder");
  }
  Target target;
  ASSIGN_OR_RETURN(target.config, LoadModelConfig(options.model));
  target.config.text_only = options.text_only;
  target.dtype = ServingDType(target.config, options.dtype);
  target.texts = MakeAdapterTextHooks(options.text, options.model, target.config);
  target.rules = {.strict_targets = options.strict_targets, .base_folder = options.model};
  return target;
}

// What a server would list, or refuse to. They are looked at as it would.
Result<FolderJail::Found> FindAdapters(const AdaptersOptions& options, Target* target) {
  if (options.adapters.empty()) {
    return InvalidArgumentError("which adapters? --adapters DIR, or their folders");
  }
  std::vector<std::string> roots = options.roots;
  roots.insert(roots.begin(), options.adapters);
  target->jail = FileJail(std::move(roots));
  return FolderJail(options.adapters, options.roots).Find();
}

std::string RankRange(const OrderedJson& modules) {
  int low = kLoraRankMax, high = 0;
  for (const auto& module : modules) {
    for (const int rank : module["ranks"]) {
      low = std::min(low, rank);
      high = std::max(high, rank);
    }
  }
  if (high == 0) return "-";  // virtual tokens alone
  return low == high ? std::to_string(high) : std::to_string(low) + "-" + std::to_string(high);
}

// Names and messages are of folders and files that others may have made: see EscapeForLog.
void PrintRefused(const std::string& name, const Status& why) {
  std::printf("%-24s refused: %s\n", EscapeForLog(name).c_str(),
              EscapeForLog(why.message()).c_str());
}

// Most messages name the folder, or a file in it, themselves.
void PrintVerdict(const std::string& path, const std::string& verdict) {
  const std::string line = verdict.starts_with(path) ? verdict : path + ": " + verdict;
  std::printf("%s\n", EscapeForLog(line).c_str());
}

// Why the template that an adapter brings cannot be used; "": it brings none, or it can.
std::string TemplateError(const AdapterTextPtr& text) {
  if (text == nullptr || !text->brings_template()) return "";
  return ChatTemplate::Parse(*text).status().message();
}

// Whether a base's name says that its weights are codes, as publishers name such models.
bool NamesCodes(const std::string& base) {
  constexpr std::string_view kMarks[] = {"4bit", "bnb", "nf4", "gptq", "awq", "w4a16", "w8a16"};
  const std::string name = LowerCase(base);
  return std::ranges::any_of(
      kMarks, [&](std::string_view mark) { return name.find(mark) != std::string::npos; });
}

// What is special about an adapter that can be served.
std::string Verdict(const Target& target, const OrderedJson& facts, const AdapterTextPtr& text) {
  std::string verdict = "ok, self-test passed";
  const std::string base = facts["base_model"];
  if (NamesCodes(base)) {
    verdict += "; trained on " + base + ", served on weights in " + target.WeightsText();
  }
  if (text != nullptr) {
    const std::string error = TemplateError(text);
    if (text->brings_template()) verdict += "; brings a chat template";
    if (!error.empty()) verdict += " that cannot be used: " + error;
    if (!text->stop_token_ids.empty()) {
      verdict += "; its answers also end at tokens " + OrderedJson(text->stop_token_ids).dump();
    }
  }
  if (facts["changes_nothing"] == true) {
    verdict += "; warning: it changes nothing, since A, B or alpha is zero in all modules";
  }
  if (facts.contains("left_out")) verdict += "; " + facts["left_out"].get<std::string>();
  return verdict;
}

Status RunList(const AdaptersOptions& options) {
  ASSIGN_OR_RETURN(Target target, LoadTarget(options));
  ASSIGN_OR_RETURN(const FolderJail::Found found, FindAdapters(options, &target));
  if (found.folders.empty() && found.refused.empty()) {
    std::printf("no adapters in %s: each is a folder in it, with %s and %s\n",
                EscapeForLog(options.adapters).c_str(), kPeftFiles[0], kPeftFiles[1]);
    return OkStatus();
  }
  std::printf("%-24s %-7s %8s %-12s  %s\n", "name", "rank", "MiB", "hash", "modules");
  for (const auto& [name, path, stamp, bytes] : found.folders) {
    const Result<OrderedJson> facts = target.Inspect(path);
    if (!facts.ok()) {
      PrintRefused(name, facts.status());
      continue;
    }
    std::string modules;
    for (const auto& [module, unused] : (*facts)["modules"].items()) {
      modules += (modules.empty() ? "" : " ") +
                 (module.ends_with("_proj") ? module.substr(0, module.find('_')) : module);
    }
    if (facts->contains("virtual_tokens")) {
      const OrderedJson& tokens = (*facts)["virtual_tokens"];
      modules += (modules.empty() ? "" : ", ") + std::to_string(tokens["count"].get<int>()) +
                 " virtual tokens (" + tokens["kind"].get<std::string>() + ")";
    }
    std::printf("%-24s %-7s %8.1f %-12s  %s\n", name.c_str(),
                RankRange((*facts)["modules"]).c_str(), (*facts)["bytes"].get<double>() / (1 << 20),
                (*facts)["hash"].get<std::string>().substr(0, 12).c_str(), modules.c_str());
  }
  for (const auto& [name, why] : found.refused) {
    PrintRefused(name, why);
  }
  return OkStatus();
}

Status RunInspect(const AdaptersOptions& options) {
  ASSIGN_OR_RETURN(const Target target, LoadTarget(options));
  for (const std::string& path : options.paths) {
    AdapterTextPtr text;
    ASSIGN_OR_RETURN(OrderedJson facts, target.Inspect(path, &text));
    const std::string error = TemplateError(text);
    if (!error.empty()) facts["chat_template_error"] = error;
    std::printf("%s\n", facts.dump(2).c_str());
  }
  return OkStatus();
}

Status RunVerify(const AdaptersOptions& options) {
  if (!options.census.empty()) {
    if (options.model.empty() && options.adapters.empty() && options.paths.empty()) {
      return VerifyCensus(options.census);
    }
    return InvalidArgumentError(
        "--census FILE names the bases and adapters that it tries: leave out --model, --adapters "
        "and folders");
  }
  ASSIGN_OR_RETURN(Target target, LoadTarget(options));
  std::vector<std::string> paths = options.paths;
  size_t num_refused = 0;
  if (paths.empty()) {
    ASSIGN_OR_RETURN(const FolderJail::Found found, FindAdapters(options, &target));
    for (const FolderJail::Folder& folder : found.folders) paths.push_back(folder.path);
    num_refused = found.refused.size();
    for (const auto& [name, why] : found.refused) {
      PrintVerdict(name, why.message());
    }
  }
  const size_t num_adapters = paths.size() + num_refused;
  for (const std::string& path : paths) {
    AdapterTextPtr text;
    const Result<OrderedJson> facts = target.Inspect(path, &text);
    num_refused += facts.ok() ? 0 : 1;
    PrintVerdict(path, facts.ok() ? Verdict(target, *facts, text) : facts.status().message());
  }
  if (num_refused == 0) return OkStatus();
  return FailedPreconditionError(std::to_string(num_refused) + " of " +
                                 std::to_string(num_adapters) + " adapters cannot be served");
}

// The folder of the adapter that a server would list by the name.
Result<std::string> FindAdapter(const AdaptersOptions& options, Target* target) {
  if (!CheckAdapterName(options.adapter).ok()) {
    return InvalidArgumentError(
        "--adapter takes the name of one adapter. A weighted sum of several is not merged: make it "
        "an adapter with PEFT's add_weighted_adapter, and merge that");
  }
  ASSIGN_OR_RETURN(const FolderJail::Found found, FindAdapters(options, target));
  std::vector<std::string> names;
  for (const FolderJail::Folder& folder : found.folders) {
    if (folder.name == options.adapter) return folder.path;
    names.push_back(folder.name);
  }
  for (const auto& [name, why] : found.refused) {
    if (name == options.adapter) return why.WithContext(name);
  }
  const std::string nearest = NearestNames(options.adapter, names);
  return NotFoundError("no adapter '" + options.adapter + "' in " + options.adapters +
                       (nearest.empty() ? "; graft adapters list shows what is there"
                                        : "; did you mean " + nearest + "?"));
}

// Adapters that no weights answer like.
Status CheckMergeable(const std::string& name, const OrderedJson& facts,
                      const AdapterTextPtr& text) {
  if (facts.contains("virtual_tokens")) {
    return UnimplementedError(name +
                              " has virtual tokens in front of every prompt, which no weights can "
                              "hold: serve it with graft serve --adapters");
  }
  if (facts.contains("alora_invocation_tokens")) {
    return UnimplementedError(name +
                              " is an activated LoRA (alora_invocation_tokens), which leaves the "
                              "tokens before these alone, and merged weights would not: serve it "
                              "with graft serve --adapters");
  }
  const std::string error = TemplateError(text);
  if (error.empty()) return OkStatus();
  return FailedPreconditionError(name + " brings a chat template that cannot be used: " + error +
                                 "; mend it, or keep the base's with --adapter-text base");
}

Status RunMerge(const AdaptersOptions& options) {
  if (options.adapter.empty() || options.out.empty()) {
    return InvalidArgumentError("which adapter, and where to? --adapter NAME --out DIR");
  }
  ASSIGN_OR_RETURN(Target target, LoadTarget(options));
  ASSIGN_OR_RETURN(const std::string path, FindAdapter(options, &target));
  AdapterTextPtr text;
  ASSIGN_OR_RETURN(const OrderedJson facts, target.Inspect(path, &text));
  RETURN_IF_ERROR(CheckMergeable(options.adapter, facts, text));
  if (facts["changes_nothing"] == true) {
    std::printf("warning: %s changes nothing, since A, B or alpha is zero in all modules\n",
                options.adapter.c_str());
  }
  if (facts.contains("left_out")) {
    std::printf("%s: %s\n", options.adapter.c_str(),
                EscapeForLog(facts["left_out"].get<std::string>()).c_str());
  }
  return MergeAdapter({.model = options.model,
                       .name = options.adapter,
                       .path = path,
                       .jail = target.jail,
                       .hash = facts["hash"].get<std::string>(),
                       .takes_texts = options.text == AdapterTextUse::kAdapter,
                       .text = text,
                       .out = options.out},
                      target.config);
}

Command Action(const std::string& name, const std::string& help,
               const std::shared_ptr<AdaptersOptions>& options, std::vector<Option> rows,
               Status (*action)(const AdaptersOptions&)) {
  return {.name = name,
          .help = help,
          .groups = {{"Options", std::move(rows)}},
          .run = [options, action] { return action(*options); }};
}

}  // namespace

Command AdaptersCommand() {
  const auto options = std::make_shared<AdaptersOptions>();  // lives as long as the command
  const Option folder{"adapters", Text(options->adapters), "folder of PEFT folders"};
  const Option roots = AdaptersRootOptionRow(options->roots);
  const Option model{"model", ModelFolder(options->model), "HF folder of the base model"};
  const Option dtype = DTypeOptionRow(options->dtype);
  const Option text = AdapterTextOptionRow(options->text);
  const Option strict = StrictTargetsOptionRow(options->strict_targets);
  const Option text_only = TextOnlyOptionRow(options->text_only);
  Option paths{.name = "paths",
               .target = Texts(options->paths),
               .help = "PEFT folders",
               .is_positional = true};
  const Option census{"census", Text(options->census),
                      "lines of JSON, each an adapter's config with its base's class, to try "
                      "without weights"};
  const Command verify = Action(
      "verify",
      "Load each adapter, run its self-test, and say why it is refused.\n"
      "  graft adapters verify --model DIR --adapters DIR\n"
      "  graft adapters verify --census FILE",
      options, {paths, folder, roots, model, dtype, text, strict, text_only, census}, RunVerify);
  const Command merge = Action(
      "merge",
      "Write a model that has an adapter merged into its weights.\n"
      "  graft adapters merge --model DIR --adapters DIR --adapter NAME --out DIR",
      options,
      {folder,
       roots,
       {"adapter", Text(options->adapter), "the adapter's name in --adapters"},
       {"out", Text(options->out), "the new model's folder, which is not there yet or is empty"},
       model,
       text,
       strict,
       text_only},
      RunMerge);
  paths.is_required = true;
  return {.name = "adapters",
          .help = "Look at PEFT adapters without serving them, or merge one into its base.",
          .subcommands = {
              Action("list",
                     "A line for each adapter of a folder.\n"
                     "  graft adapters list --model DIR --adapters DIR",
                     options, {folder, roots, model, dtype, text, strict, text_only}, RunList),
              Action("inspect",
                     "Everything about an adapter, as JSON.\n"
                     "  graft adapters inspect --model DIR ADAPTER_DIR",
                     options, {paths, model, dtype, text, strict, text_only}, RunInspect),
              verify, merge}};
}

}  // namespace graft
