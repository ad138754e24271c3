// graft learn: documents become adapters, one each, that a server finds in its adapters folder.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/learn_answers.h"
#include "cli/learn_group.h"
#include "cli/learn_job.h"
#include "cli/learn_options.h"
#include "cli/learn_texts.h"
#include "document/document.h"
#include "learn/learner.h"
#include "request/adapter_name.h"
#include "runtime/base_identity.h"
#include "runtime/progress.h"
#include "runtime/runtime.h"
#include "tuning/encoder_folder.h"
#include "tuning/learn_memory.h"
#include "tuning/recipe.h"
#include "tuning/task_set.h"

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
Result<std::vector<LearnJob>> ReadJobs(const LearnOptions& options, const TaskSet& task,
                                       const Tokenizer& tokenizer) {
  if (options.names.size() > options.files.size()) {
    return InvalidArgumentError("there are more --name than files");
  }
  std::vector<LearnJob> jobs;
  std::set<std::string> names;
  for (size_t i = 0; i < options.files.size(); ++i) {
    LearnJob job;
    ASSIGN_OR_RETURN(job.document, ReadAndTell(options.files[i]));
    job.name = i < options.names.size() ? options.names[i] : AdapterNameFrom(job.document.name);
    RETURN_IF_ERROR(CheckName(job.name, names));
    names.insert(job.name);
    job.folder = options.adapters + "/" + job.name;
    job.checkpoint = job.folder + ".learning";
    RETURN_IF_ERROR(CheckFree(options, job.name));
    for (const TaskSet::FrozenDocument& document : task.documents) {
      RETURN_IF_ERROR(CheckFree(options, JoinedName(document, job.name)));
    }
    ASSIGN_OR_RETURN(job.input, LearnerInputOf(options.recipe, job.document.text, tokenizer));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

// What is refused by its config, before its weights are read.
Result<ModelConfig> CheckModel(LearnOptions& options) {
  if (options.runtime.model.empty()) {
    return InvalidArgumentError("which model? --model DIR, an HF folder (demo/base is one)");
  }
  ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(options.runtime.model));
  ASSIGN_OR_RETURN(const Device device, PickDevice(options.runtime.device));
  RETURN_IF_ERROR(CheckTrainable(config, device));
  if (options.runtime.sequences_max == 0) {
    options.runtime.sequences_max = device.is_cpu() ? kSequencesOnCpu : kSequencesOnGpu;
  }
  if (!device.is_cpu()) options.runtime.step_tokens_max = kStepTokensOnGpu;
  return config;
}

// `task` is filled in for the learner of that name.
Result<std::unique_ptr<Learner>> MakeAnyLearner(const LearnOptions& options,
                                                const ModelConfig& config,
                                                const Tokenizer& tokenizer, TaskSet* task) {
  if (options.recipe.learner != LearnerKind::kTask) {
    return MakeLearner(options.recipe, tokenizer, options.runtime.model);
  }
  if (options.files.size() != 1) {
    return InvalidArgumentError("the learner task learns from one file of questions");
  }
  ASSIGN_OR_RETURN(const Document lines, ReadDocument(options.files[0]));
  Result<TaskSet> set = ReadTaskSet(lines.text, options.adapters, options.recipe, config, tokenizer,
                                    options.runtime.model);
  if (!set.ok()) return set.status().WithContext(options.files[0]);
  *task = std::move(*set);
  return MakeTaskLearner(task->questions);
}

EncoderSettings EncoderSettingsOf(const LearnOptions& options, const Learner& learner,
                                  const ModelConfig& config) {
  const LearnerParts parts = PartsOf(options.recipe, learner);
  return {.rates = RatesOf(options.recipe, learner),
          .rank = parts.rank,
          .memory_tokens = parts.virtual_tokens,
          .window_tokens = options.recipe.window_tokens,
          .window_passes = options.reconstruction_passes,
          .window_answer_passes = options.window_answer_passes,
          .end_token = config.eos_token_ids.empty() ? 0 : config.eos_token_ids[0],
          .has_answers = !options.reconstruction_only,
          .embedder = options.embedder,
          .hidden_size = config.hidden_size,
          .seed = options.recipe.seed};
}

LearnSizes SizesOfJobs(const LearnOptions& options, const Learner& learner, const TaskSet& task,
                       const ModelConfig& config, const std::vector<LearnJob>& jobs) {
  std::vector<const LearnerInput*> inputs;
  for (const LearnJob& job : jobs) inputs.push_back(&job.input);
  LearnSizes sizes = SizesOfDocuments(options.recipe, learner, inputs);
  sizes.num_adapters = std::min(options.together, static_cast<int>(jobs.size()));
  for (const TaskSet::FrozenDocument& document : task.documents) {
    sizes.frozen.rank = std::max(sizes.frozen.rank, document.shape.rank);
    int32_t& tokens = document.shape.kind == VirtualTokenKind::kEmbedding
                          ? sizes.frozen.embeddings
                          : sizes.frozen.keys_values;
    tokens = std::max(tokens, document.shape.virtual_tokens);
    sizes.frozen.shapes.push_back(document.shape);
  }
  sizes.frozen.bytes = task.bytes;
  if (options.recipe.learner == LearnerKind::kEncoder) {
    std::vector<size_t> tokens;
    for (const LearnJob& job : jobs) tokens.push_back(job.input.tokens.size());
    const EncoderSettings settings = EncoderSettingsOf(options, learner, config);
    sizes.num_adapters = 1;
    sizes.frozen = EncoderSizes(tokens, settings, config, DType::kF32);
  }
  sizes.kept_gib = options.kept_gib;
  sizes.threads = options.runtime.threads == 0 ? NumCpus() : options.runtime.threads;
  return sizes;
}

// Virtual tokens of documents that stand before an example, and a map, which is kept as some.
Status CheckMemories(const LearnOptions& options, const LearnSizes& sizes,
                     const ModelConfig& config) {
  if (options.embedder != Embedder::kTrained && config.hidden_size >= kVirtualTokensMax) {
    return UnimplementedError("--embedder takes models of a hidden size below " +
                              std::to_string(kVirtualTokensMax));
  }
  const int32_t before = std::max(sizes.frozen.embeddings, sizes.frozen.keys_values);
  if (before + sizes.example_tokens_max <= config.context_tokens_max) return OkStatus();
  return InvalidArgumentError(
      std::to_string(before) + " virtual tokens of a document and examples of up to " +
      std::to_string(sizes.example_tokens_max) + " tokens are more than the model's context of " +
      std::to_string(config.context_tokens_max) +
      "; fewer --virtual-tokens, or larger --window-tokens of a document, make room");
}

// Training must fit, before it the server that writes, and after it the one that answers.
CheckMemory LearningFits(const LearnOptions& options, const LearnSizes& sizes, bool writes,
                         TrainingLimits* limits) {
  return [&options, sizes, writes, limits](const ServedShape& shape, const MemoryBudget& budget,
                                           MemorySum sum) {
    if (!shape.device.is_cpu()) {
      RETURN_IF_ERROR(CheckTrainableOnGpu(shape.config, shape.dtype, shape.device));
    }
    if (writes || !options.questions.empty()) {
      RETURN_IF_ERROR(ServerFits(options.runtime)(shape, budget, sum));
    }
    *limits = PlanTraining(sizes, shape, budget, &sum);
    RETURN_IF_ERROR(sum.Check(budget));
    LOG_INFO("memory: {}; {}", sum.ToString(), budget.DeviceText());
    return OkStatus();
  };
}

Status PrepareAll(const LearnOptions& options, Learner& learner, LoadedModel& model,
                  const BaseIdentity& base, std::vector<LearnJob>& jobs) {
  std::vector<DocumentToPrepare> documents;
  for (const LearnJob& job : jobs) documents.push_back({job.name, &job.input});
  ASSIGN_OR_RETURN(std::vector<LearnerData> data,
                   PrepareDocuments(options, learner, model, base, documents));
  for (size_t i = 0; i < jobs.size(); ++i) {
    LearnJob& job = jobs[i];
    job.data = std::move(data[i]);
    job.asked = std::move(job.data.asked);
    job.shape = ShapeOf(options.recipe, learner, job.data.text.size());
  }
  return OkStatus();
}

// All jobs by one encoder, which is learned from them where there is none.
Status EncodeJobs(const LearnOptions& options, const Learner& learner, LoadedModel& model,
                  const BaseIdentity& base, const TrainingLimits& limits,
                  std::span<LearnJob> jobs) {
  ProgressBar bar("learning an encoder", options.quiet);
  EncoderOrder order{.folder = options.encoder,
                     .settings = EncoderSettingsOf(options, learner, model.config),
                     .checkpoint_seconds = options.checkpoint_seconds,
                     .on_resume =
                         [](int32_t step, int32_t total) {
                           std::fprintf(stderr, "the encoder goes on from step %d of %d\n", step,
                                        total);
                         },
                     .on_step =
                         [&](int32_t done, int32_t total, double loss) {
                           char text[32];
                           std::snprintf(text, sizeof(text), "loss %.3f", loss);
                           bar.Update(done, total, text);
                         }};
  const TrainedShape shape = ShapeOf(options.recipe, learner, kVirtualTokensMax);
  for (LearnJob& job : jobs) {
    OrderedJson origin = OriginJson(options.recipe, learner, shape, model, base, job.document,
                                    job.input.tokens.size());
    if (options.embedder != Embedder::kTrained) {
      origin["learner"]["embedder"] = WordOf(options.embedder, kEmbedderWords);
    }
    order.documents.push_back({job.name, job.folder,
                               EncoderDocument{job.input.tokens, std::move(job.data)},
                               std::move(origin)});
  }
  ASSIGN_OR_RETURN(const EncoderReport report, LearnByEncoder(std::move(order), model, limits));
  std::printf("encoder  (%s)\n  loss      %.3f of its documents by their memories\n",
              options.encoder.c_str(), report.scores.reconstruction);
  if (report.num_steps > 0) {
    std::printf("            %.3f -> %.3f on answers, %.3f -> %.3f on those held out\n",
                report.scores.answers_without, report.scores.answers,
                report.scores.held_out_without, report.scores.held_out);
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    std::printf("%s  (%s)\n  hash      %s\n", jobs[i].name.c_str(), jobs[i].folder.c_str(),
                report.hashes[i].c_str());
  }
  return OkStatus();
}

Status RunLearn(LearnOptions options) {
  RETURN_IF_ERROR(InitLog(options.runtime.log_level));
  ASSIGN_OR_RETURN(const ModelConfig config, CheckModel(options));
  RETURN_IF_ERROR(ResolvePrompts(options.runtime.model, &options.recipe));
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(options.runtime.model));
  for (const std::string& file : options.keep_texts) {
    ASSIGN_OR_RETURN(Document document, ReadAndTell(file));
    options.recipe.keep_texts.push_back(std::move(document));
  }
  TaskSet task;
  ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner,
                   MakeAnyLearner(options, config, *tokenizer, &task));
  RETURN_IF_ERROR(CheckContext(options.recipe, *learner, config, "--window-tokens"));
  ASSIGN_OR_RETURN(std::vector<LearnJob> jobs, ReadJobs(options, task, *tokenizer));
  TrainingLimits limits;
  const bool is_encoder = options.recipe.learner == LearnerKind::kEncoder;
  const bool writes = learner->writes() && !(is_encoder && HasEncoder(options.encoder));
  const LearnSizes sizes = SizesOfJobs(options, *learner, task, config, jobs);
  RETURN_IF_ERROR(CheckMemories(options, sizes, config));
  ASSIGN_OR_RETURN(const auto model, LoadModel(options.runtime, options.quiet,
                                               LearningFits(options, sizes, writes, &limits)));
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(options.runtime.model));
  std::error_code error;
  fs::create_directories(options.adapters, error);
  if (error) {
    return InvalidArgumentError("cannot make " + options.adapters + ": " + error.message());
  }
  if (writes || !is_encoder) RETURN_IF_ERROR(PrepareAll(options, *learner, *model, base, jobs));
  for (const LearnJob& job : jobs) RETURN_IF_ERROR(CheckExamples(job.data, sizes));
  if (is_encoder) {
    RETURN_IF_ERROR(EncodeJobs(options, *learner, *model, base, limits, jobs));
    return AskAll(options, *tokenizer, *model, jobs);
  }
  const auto at_once = static_cast<size_t>(sizes.num_adapters);
  for (size_t begin = 0; begin < jobs.size(); begin += at_once) {
    const std::span<LearnJob> group =
        std::span(jobs).subspan(begin, std::min(at_once, jobs.size() - begin));
    RETURN_IF_ERROR(LearnTogether(options, task, *learner, *model, base, limits, group));
  }
  return AskAll(options, *tokenizer, *model, jobs);
}

}  // namespace

Command LearnCommand() {
  const auto options = std::make_shared<LearnOptions>();  // lives as long as the command
  std::vector<Option> model = ModelOptionRows(options->runtime);
  for (Option& row : model) {
    if (row.name == "device") {
      row.help = "a GPU trains in bf16 with heads of 64 and 128 on Hopper";
    }
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
