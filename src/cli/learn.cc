// graft learn: documents become adapters, one each, that a server finds in its adapters folder.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/answer_text.h"
#include "cli/commands.h"
#include "cli/learn_options.h"
#include "cli/learn_texts.h"
#include "document/document.h"
#include "learn/learned_folder.h"
#include "learn/learner.h"
#include "learn/training_run.h"
#include "request/adapter_name.h"
#include "runtime/base_identity.h"
#include "runtime/progress.h"
#include "runtime/runtime.h"
#include "tuning/encoder_folder.h"
#include "tuning/learn_memory.h"
#include "tuning/recipe.h"
#include "tuning/task_set.h"
#include "tuning/teacher_prompts.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

// Texts that the base writes at once. New ones come into nearly every step, and a GPU takes such a
// step kernel by kernel: few steps of many rows are fastest.
constexpr int kSequencesOnCpu = 16;
constexpr int kSequencesOnGpu = 1024;
constexpr int kStepTokensOnGpu = 8192;

// A document on its way to an adapter.
struct LearnJob {
  std::string name;
  Document document;
  LearnerInput input;
  LearnerData data;
  TrainedShape shape;
  std::string folder;      // of the adapter
  std::string checkpoint;  // a file, which is gone at the end
};

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

// Reads all documents before anything else: a wrong one must not cost the time of the others.
Result<std::vector<LearnJob>> ReadJobs(const LearnOptions& options, const Tokenizer& tokenizer) {
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
    if (fs::exists(job.folder) && !options.replace) {
      return AlreadyExistsError(job.folder + " is there already; --replace learns it anew");
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

std::string MinutesText(double seconds) {
  char text[32];
  const auto whole = static_cast<long long>(seconds + 0.5);
  std::snprintf(text, sizeof(text), "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

// Learns these jobs side by side.
class LearnGroup {
 public:
  LearnGroup(const LearnOptions& options, const TaskSet& task, Learner& learner, LoadedModel& model,
             const BaseIdentity& base, const TrainingLimits& limits, std::span<LearnJob> jobs)
      : options_(options),
        task_(task),
        learner_(learner),
        model_(model),
        base_(base),
        jobs_(jobs),
        trainer_(model.config, model.weights, limits, model.stream) {}

  Status Run() {
    RETURN_IF_ERROR(AddDocuments(task_, model_.config, trainer_));
    const LearnRecipe& recipe = options_.recipe;
    for (LearnJob& job : jobs_) {
      runs_.push_back(std::make_unique<TrainingRun>(
          trainer_, std::move(job.data), RatesOf(recipe, learner_), job.shape, recipe.seed,
          RunIdentity(OriginOf(job), model_)));
    }
    start_ns_ = SteadyClock::Get().NowNs();
    std::vector<TrainingRun*> runs;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      ASSIGN_OR_RETURN(const bool resumed, runs_[i]->Resume(jobs_[i].checkpoint));
      if (resumed) {
        std::fprintf(stderr, "%s goes on from step %d of %d\n", jobs_[i].name.c_str(),
                     runs_[i]->step(), runs_[i]->num_steps());
      }
      RETURN_IF_ERROR(runs_[i]->Begin());
      runs.push_back(runs_[i].get());
    }
    Tell("losses before");
    RETURN_IF_ERROR(Train(runs));
    Tell("steps");
    RETURN_IF_ERROR(FinishAll());
    Tell("losses after, and the writing of adapters");
    return OkStatus();
  }

 private:
  // How long a part took.
  void Tell(const char* part) {
    const int64_t now_ns = SteadyClock::Get().NowNs();
    LOG_INFO("{} of {} documents: {:.1f} s", part, jobs_.size(), NsToSeconds(now_ns - told_ns_));
    told_ns_ = now_ns;
  }

  // Of the run that has most of them.
  int64_t StepsLeft() const {
    int64_t left = 0;
    for (const auto& run : runs_) left = std::max<int64_t>(left, run->num_steps() - run->step());
    return left;
  }

  Status Train(std::span<TrainingRun* const> runs) {
    ProgressBar bar(jobs_.size() == 1 ? "learning " + jobs_[0].name
                                      : "learning " + std::to_string(jobs_.size()) + " documents",
                    options_.quiet);
    const int64_t total = StepsLeft();
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    int64_t saved_ns = begin_ns;
    for (int64_t left = total; left > 0;) {
      StepTogether(trainer_, runs);
      left = StepsLeft();
      const int64_t now_ns = SteadyClock::Get().NowNs();
      const double seconds = NsToSeconds(now_ns - begin_ns) / static_cast<double>(total - left) *
                             static_cast<double>(left);
      bar.Update(total - left, total, LossText() + ", " + MinutesText(seconds) + " left");
      if (left == 0 || now_ns - saved_ns < int64_t{options_.checkpoint_seconds} * 1'000'000'000) {
        continue;
      }
      RETURN_IF_ERROR(SaveAll());
      saved_ns = SteadyClock::Get().NowNs();
    }
    return OkStatus();
  }

  Status SaveAll() {
    for (size_t i = 0; i < jobs_.size(); ++i) {
      RETURN_IF_ERROR(runs_[i]->SaveCheckpoint(jobs_[i].checkpoint));
    }
    return OkStatus();
  }

  std::string LossText() const {
    double sum = 0.0;
    for (const auto& run : runs_) sum += run->last_loss();
    char text[32];
    std::snprintf(text, sizeof(text), "loss %.3f", sum / static_cast<double>(runs_.size()));
    return text;
  }

  OrderedJson OriginOf(const LearnJob& job) const {
    OrderedJson origin = OriginJson(options_.recipe, learner_, job.shape, model_, base_,
                                    job.document, job.input.tokens.size());
    for (const TaskSet::FrozenDocument& document : task_.documents) {
      origin["documents"][document.name] = document.hash;
    }
    return origin;
  }

  // While one is written, the device looks at the next one.
  Status FinishAll() {
    std::future<Status> written;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const LearnJob& job = jobs_[i];
      TrainingRun& run = *runs_[i];
      RETURN_IF_ERROR(run.Finish());
      const LearnedAdapter adapter = {run.lora(), run.prompt()};  // in the host's memory from here
      if (written.valid()) RETURN_IF_ERROR(written.get());
      std::error_code ignored;
      fs::remove(job.checkpoint, ignored);
      RETURN_IF_ERROR(
          CheckLearned(job.name, run.scores(), "lower --learning-rate or --prompt-learning-rate"));
      written = std::async(std::launch::async,
                           [this, &job, &run, adapter] { return Write(job, run, adapter); });
    }
    return written.get();
  }

  Status Write(const LearnJob& job, TrainingRun& run, const LearnedAdapter& adapter) {
    const double seconds = NsToSeconds(SteadyClock::Get().NowNs() - start_ns_);
    OrderedJson provenance = OriginOf(job);
    provenance["scores"] = ScoresJson(run.scores());
    ASSIGN_OR_RETURN(const std::string hash,
                     WriteLearnedFolder(job.folder, model_.config, adapter, model_.weights.dtype,
                                        model_.name, provenance));
    Report(job, run, hash, seconds);
    return WriteJoined(job, run, provenance);
  }

  int64_t ServedBytes(TrainingRun& run) const {
    int64_t bytes = 0;
    if (run.lora() != nullptr) {
      bytes +=
          static_cast<int64_t>(run.lora()->parameters().size()) * DTypeBytes(model_.weights.dtype);
    }
    if (run.prompt() != nullptr) {
      bytes += static_cast<int64_t>(run.prompt()->parameters().size()) *
               DTypeBytes(run.prompt()->dtype());
    }
    return bytes;
  }

  void Report(const LearnJob& job, TrainingRun& run, const std::string& hash, double seconds) {
    const TrainingScores& scores = run.scores();
    std::printf("%s  (%s)\n", job.name.c_str(), job.folder.c_str());
    std::printf("  document  %lld bytes, %zu tokens\n", static_cast<long long>(job.document.bytes),
                job.input.tokens.size());
    std::printf("  loss      %.3f -> %.3f on what it learned", scores.before, scores.after);
    if (scores.num_held_out_rows > 0) {
      std::printf(", %.3f -> %.3f on %lld tokens held out\n", scores.held_out_before,
                  scores.held_out_after, static_cast<long long>(scores.num_held_out_rows));
    } else {
      std::printf("; nothing was held out of a document as short as this\n");
    }
    const int64_t adapter = ServedBytes(run);
    const KvLayout layout =
        MakeKvLayout(model_.config, 1, KvDType(model_.weights.dtype, model_.device));
    const int64_t kv = layout.PageBytes() * static_cast<int64_t>(job.input.tokens.size());
    std::printf("  size      %.0f KiB, %.2f of the document's keys and values\n",
                static_cast<double>(adapter) / 1024,
                static_cast<double>(adapter) / static_cast<double>(kv));
    std::printf("  time      %s, %d steps, seed %llu\n", MinutesText(seconds).c_str(),
                run.num_steps(), static_cast<unsigned long long>(options_.recipe.seed));
    std::printf("  hash      %s\n", hash.c_str());
  }

  // Beside each frozen document as one adapter, which a server serves by one name.
  Status WriteJoined(const LearnJob& job, TrainingRun& run, const OrderedJson& provenance) {
    for (size_t i = 0; i < task_.documents.size(); ++i) {
      const auto index = static_cast<int32_t>(i);
      const std::unique_ptr<TrainedLora> joined =
          JoinLora(model_.config, trainer_.lora(index), run.lora(), model_.weights.dtype);
      OrderedJson both = provenance;
      both["joined"] = {task_.documents[i].name, job.name};
      const std::string name = task_.documents[i].name + "." + job.name;
      ASSIGN_OR_RETURN(const std::string hash,
                       WriteLearnedFolder(options_.adapters + "/" + name, model_.config,
                                          {joined.get(), trainer_.prompt(index)},
                                          model_.weights.dtype, model_.name, both));
      std::printf("  with %s: %s, hash %s\n", task_.documents[i].name.c_str(), name.c_str(),
                  hash.c_str());
    }
    return OkStatus();
  }

  const LearnOptions& options_;
  const TaskSet& task_;
  Learner& learner_;
  LoadedModel& model_;
  const BaseIdentity& base_;
  const std::span<LearnJob> jobs_;
  Trainer trainer_;
  std::vector<std::unique_ptr<TrainingRun>> runs_;
  int64_t start_ns_ = 0;
  int64_t told_ns_ = SteadyClock::Get().NowNs();
};

Result<std::string> AnswerTo(Runtime& runtime, const Tokenizer& tokenizer,
                             const std::string& adapter, std::vector<int32_t> prompt,
                             int tokens_max, RequestId id) {
  Request request;
  request.id = id;
  request.prompt_tokens = std::move(prompt);
  request.sampling.temperature = 0.0f;
  request.sampling.tokens_max = tokens_max;
  if (!adapter.empty()) {
    ASSIGN_OR_RETURN(const AdapterInfo info, runtime.catalog().Find(adapter));
    request.UseAdapter(info.key());
  }
  AnswerText answer(tokenizer, {});
  RETURN_IF_ERROR(runtime.engine().Submit(std::move(request), answer.stream()));
  std::string all;
  for (bool more = true; more;) {
    std::string text;
    ASSIGN_OR_RETURN(more, answer.Next(&text));
    all += text;
  }
  std::replace(all.begin(), all.end(), '\n', ' ');
  return all;
}

// Each question to the base and to each adapter, as a server would answer it.
Status AskAll(const LearnOptions& options, const Tokenizer& tokenizer, LoadedModel& model,
              const std::vector<LearnJob>& jobs) {
  if (options.questions.empty()) return OkStatus();
  RuntimeOptions served = options.runtime;
  served.adapters = options.adapters;
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(served, model, /*lora=*/true));
  RETURN_IF_ERROR(runtime->LoadAdapters());
  runtime->engine().Start();
  uint64_t id = 0;
  std::optional<ChatTemplate> chat;
  if (options.recipe.prompts == TeacherPrompts::kChat) {
    ASSIGN_OR_RETURN(chat, LoadChatTemplate(options.runtime.model));
  }
  for (const std::string& question : options.questions) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                     chat.has_value() ? AskedMessage(*chat, tokenizer, question)
                                      : tokenizer.Encode(question, /*add_special_tokens=*/true));
    std::printf("\n%s\n", question.c_str());
    ASSIGN_OR_RETURN(const std::string base,
                     AnswerTo(*runtime, tokenizer, "", prompt, options.answer_tokens, ++id));
    std::printf("  %-12s %s\n", model.name.c_str(), base.c_str());
    for (const LearnJob& job : jobs) {
      ASSIGN_OR_RETURN(const std::string text, AnswerTo(*runtime, tokenizer, job.name, prompt,
                                                        options.answer_tokens, ++id));
      std::printf("  %-12s %s\n", job.name.c_str(), text.c_str());
    }
  }
  return OkStatus();
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
    job.data.hidden = learner.writes() ? options.recipe.hidden : HiddenStates::kNone;
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
  ASSIGN_OR_RETURN(std::vector<LearnJob> jobs, ReadJobs(options, *tokenizer));
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
    RETURN_IF_ERROR(LearnGroup(options, task, *learner, *model, base, limits, group).Run());
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
