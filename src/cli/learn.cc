// graft learn: documents become adapters, one each, that a server finds in its adapters folder.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/log_format.h"
#include "cli/commands.h"
#include "cli/learn_answers.h"
#include "cli/learn_encoder.h"
#include "cli/learn_group.h"
#include "cli/learn_options.h"
#include "cli/learn_texts.h"
#include "learn/trainable.h"
#include "request/adapter_name.h"
#include "runtime/named_model.h"
#include "runtime/weights_kept.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

// Texts that the base writes at once. New ones come into nearly every step, and a GPU takes such a
// step kernel by kernel: few steps of many rows are fastest.
constexpr int kSequencesOnCpu = 16;
constexpr int kSequencesOnGpu = 1024;
constexpr int kStepTokensOnGpu = 8192;

Status CheckName(const std::string& name, const std::set<std::string>& taken) {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    return InvalidArgumentError("--name '" + name +
                                "': an adapter's name is a folder's, without / and no . first");
  }
  RETURN_IF_ERROR(CheckAdapterName(name).WithContext("--name '" + name + "'"));
  if (taken.count(name) == 0) return OkStatus();
  return InvalidArgumentError("two adapters would be named '" + name + "'; give each a --name");
}

// What it says of how it was read, it says to the user.
Result<Document> ReadAndTell(const std::string& file) {
  ASSIGN_OR_RETURN(Document document, ReadDocument(file));
  for (const std::string& note : document.notes) {
    std::fprintf(stderr, "%s: %s\n", file.c_str(), note.c_str());
  }
  return document;
}

// A folder that the learning would write, and that is there already.
Status CheckFree(const LearnOptions& options, const std::string& name) {
  const std::string folder = options.adapters + "/" + name;
  if (options.replace || !fs::exists(folder)) return OkStatus();
  return AlreadyExistsError(folder + " is there already; --replace learns it anew");
}

// Reads all documents before anything else: a wrong one must not cost the time of the others.
Status ReadDocuments(const LearnOptions& options, const Tokenizer& tokenizer, LearningPlan* plan) {
  if (options.names.size() > options.files.size()) {
    return InvalidArgumentError("there are more --name than files");
  }
  std::set<std::string> names;
  for (size_t i = 0; i < options.files.size(); ++i) {
    LearningDocument document;
    ASSIGN_OR_RETURN(document.document, ReadAndTell(options.files[i]));
    document.name =
        i < options.names.size() ? options.names[i] : AdapterNameFrom(document.document.name);
    RETURN_IF_ERROR(CheckName(document.name, names));
    names.insert(document.name);
    document.folder = options.adapters + "/" + document.name;
    document.checkpoint = document.folder + ".learning";
    RETURN_IF_ERROR(CheckFree(options, document.name));
    for (const TaskSet::FrozenDocument& frozen : plan->task.documents) {
      RETURN_IF_ERROR(CheckFree(options, JoinedName(frozen, document.name)));
    }
    RETURN_IF_ERROR(AddDocument(std::move(document), tokenizer, plan));
  }
  return OkStatus();
}

// What is refused by its config, before its weights are read.
Result<ModelConfig> CheckModel(LearnOptions& options) {
  if (options.runtime.model.empty()) {
    return InvalidArgumentError("which model? --model DIR, an HF folder (demo/base is one)");
  }
  RETURN_IF_ERROR(FindNamedModel(options.quiet, &options.runtime));
  ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(options.runtime.model));
  ASSIGN_OR_RETURN(const Device device, PickDevice(options.runtime.device));
  RETURN_IF_ERROR(CheckTrainable(device));
  if (options.runtime.weights == WeightsKept::kAuto) options.runtime.weights = WeightsKept::kPlain;
  ASSIGN_OR_RETURN(const ServedTypes types,
                   ChooseServedTypes(options.runtime, config, DType::kBF16, device));
  RETURN_IF_ERROR(CheckTrainableWeights(types));
  if (config.quantisation.has_value()) {
    std::fprintf(stderr, "%s is %s: its weights become numbers, which adapters are learned on\n",
                 EscapeForLog(options.runtime.model).c_str(), config.quantisation->text.c_str());
  }
  if (options.runtime.limits.sequences_max == 0) {
    options.runtime.limits.sequences_max = device.is_cpu() ? kSequencesOnCpu : kSequencesOnGpu;
  }
  if (!device.is_cpu()) options.runtime.limits.step_tokens_max = kStepTokensOnGpu;
  return config;
}

Result<LearningPlan> PlanOf(const LearnOptions& options, const ModelConfig& config,
                            const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(LearnRecipe recipe, RecipeOf(options.method, options.seed));
  for (const std::string& file : options.method.keep_text) {
    ASSIGN_OR_RETURN(Document document, ReadAndTell(file));
    recipe.keep_texts.push_back(std::move(document));
  }
  const std::string& model = options.runtime.model;
  Result<LearningPlan> plan = LearningPlan();
  if (recipe.learner != LearnerKind::kTask) {
    plan = MakePlan(std::move(recipe), WordsOfCommand(), tokenizer, model);
  } else {
    if (options.files.size() != 1) {
      return InvalidArgumentError("the learner task learns from one file of questions");
    }
    ASSIGN_OR_RETURN(const Document lines, ReadDocument(options.files[0]));
    plan = MakeTaskPlan(std::move(recipe), WordsOfCommand(), lines.text, options.adapters, config,
                        tokenizer, model);
    if (!plan.ok()) return plan.status().WithContext(options.files[0]);
  }
  RETURN_IF_ERROR(plan.status());
  RETURN_IF_ERROR(ReadDocuments(options, tokenizer, &*plan));
  return plan;
}

LearnSizes SizesOf(const LearnOptions& options, const LearningPlan& plan) {
  LearnSizes sizes = SizesOfPlan(plan);
  sizes.num_adapters = std::min(options.together, static_cast<int>(plan.documents.size()));
  sizes.kept_gib = options.kept_gib;
  sizes.threads = options.runtime.threads == 0 ? NumCpus() : options.runtime.threads;
  return sizes;
}

// An encoder that is named makes adapters, or is where distill begins.
Status ChooseLearner(LearnOptions* options) {
  std::string& learner = options->method.learner;
  const std::string by_encoder = WordOf(LearnerKind::kEncoder);
  const bool has_encoder = !options->encoder.folder.empty();
  if (learner.empty()) learner = has_encoder ? by_encoder : WordOf(LearnerKind::kDistill);
  if (!has_encoder || learner == by_encoder) return OkStatus();
  if (!options->encoder.corpus.empty()) {
    return InvalidArgumentError("--corpus teaches an encoder, without --learner");
  }
  options->method.begin = kBeginWords[1];
  return OkStatus();
}

Status RunLearn(LearnOptions options) {
  RETURN_IF_ERROR(InitLog(options.runtime.log.level));
  RETURN_IF_ERROR(ChooseLearner(&options));
  ASSIGN_OR_RETURN(const ModelConfig config, CheckModel(options));
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(options.runtime.model));
  ASSIGN_OR_RETURN(LearningPlan plan, PlanOf(options, config, *tokenizer));
  if (plan.recipe.learner == LearnerKind::kEncoder) {
    return RunEncoder(options, config, *tokenizer, plan);
  }
  if (plan.documents.empty()) return InvalidArgumentError("which documents?");
  ASSIGN_OR_RETURN(const auto begins, OpenBeginnings(options, config, *tokenizer, &plan));
  const LearnSizes sizes = SizesOf(options, plan);
  RETURN_IF_ERROR(CheckPlan(plan, sizes, config));
  TrainingLimits limits;
  const bool serves = plan.writes || !options.questions.empty();
  ASSIGN_OR_RETURN(
      const auto model,
      LoadModel(options.runtime, options.quiet,
                BehindBeginnings(begins.get(), options, config,
                                 LearningFits(options.runtime, sizes, serves, &limits))));
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(options.runtime.model));
  std::error_code error;
  fs::create_directories(options.adapters, error);
  if (error) {
    return InvalidArgumentError("cannot make " + options.adapters + ": " + error.message());
  }
  if (begins != nullptr) RETURN_IF_ERROR(ReadBeginnings(*begins, *model, &plan));
  RETURN_IF_ERROR(PrepareDocuments(options, sizes, *model, base, &plan));
  const std::span<LearningDocument> all = plan.documents;
  const auto at_once = static_cast<size_t>(sizes.num_adapters);
  for (size_t begin = 0; begin < all.size(); begin += at_once) {
    const auto group = all.subspan(begin, std::min(at_once, all.size() - begin));
    RETURN_IF_ERROR(LearnTogether(options, plan, group, *model, base, limits));
  }
  return AskAll(options, *tokenizer, *model, plan);
}

}  // namespace

Command LearnCommand() {
  const auto options = std::make_shared<LearnOptions>();  // lives as long as the command
  std::vector<Option> model = ModelOptionRows(options->runtime);
  for (Option& row : model) {
    if (row.name == "device") {
      row.help =
          "a GPU trains in bf16, with heads of 64 to 96, 128 and 256 on Hopper, by eights up to "
          "256 on other cards";
    }
    if (row.name == "weights") row.help = "auto and plain alike: training needs numbers";
  }
  return {.name = "learn",
          .help =
              "Make an adapter of each document, which answers for it without reading it.\n"
              "  graft learn report.pdf --model DIR --name report --ask 'Who wrote it?'\n"
              "  graft serve --model DIR --adapters adapters     then serves it as model=report",
          .groups = {{"Documents", LearnDocumentRows(*options)},
                     {"Training", LearnTrainingRows(*options)},
                     {"Model", std::move(model)}},
          .run = [options] { return RunLearn(*options); },
          .environment_prefix = "GRAFT_LEARN_"};
}

}  // namespace graft
