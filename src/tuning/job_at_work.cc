#include "tuning/job_at_work.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "document/document.h"
#include "learn/learned_folder.h"
#include "tuning/engine_writer.h"
#include "tuning/learn_memory.h"

namespace graft {
namespace {

constexpr int32_t kEventsMax = 100;   // of a job's steps
constexpr size_t kOrdersAtOnce = 8;   // of texts that are written beside other requests
constexpr float kWeightMin = 0.001f;  // of a tenant
constexpr float kWeightMax = 1000.0f;
// No request over HTTP comes to have such an id.
constexpr uint64_t kFirstWriterId = uint64_t{1} << 62;

Result<Document> DocumentOf(const LearningFile& file, const std::string& content,
                            const std::function<bool()>& is_wanted) {
  Document document;
  document.name = std::filesystem::path(file.name).stem().string();
  document.bytes = static_cast<int64_t>(content.size());
  Sha256 hash;
  hash.Update(content);
  document.hash = hash.HexDigest();
  ASSIGN_OR_RETURN(DocumentContent read,
                   DocumentText(content, file.name, {.pdf = {}, .is_wanted = is_wanted}));
  document.text = std::move(read.text);
  document.notes = std::move(read.notes);
  return document;
}

// The word's value.
template <typename T, size_t N>
Result<T> ValueOf(const std::string& word, const OptionWord<T> (&words)[N], const char* what) {
  for (const OptionWord<T>& one : words) {
    if (word == one.word) return one.value;
  }
  return InvalidArgumentError("this server has no " + std::string(what) + " '" + word + "'");
}

int64_t TokensIn(const LearnerData& data) {
  int64_t tokens = 0;
  for (const auto* examples : {&data.training, &data.kept}) {
    for (const TrainingExample& example : *examples) {
      tokens += static_cast<int64_t>(example.tokens.size());
    }
  }
  return tokens;
}

// A store that is away costs no job: the job goes on from its checkpoint once the store is there.
Status LeftBy(const Status& store) {
  return IsPassing(store) ? Status(StatusCode::kAborted, store.message()) : store;
}

std::string Rounded(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", number);
  return text;
}

}  // namespace

Result<LearnRecipe> RecipeOf(const LearningJob& job) {
  LearnRecipe recipe;
  const DocumentMethod& method = job.method;
  ASSIGN_OR_RETURN(recipe.learner, ValueOf(method.learner, kLearnerWords, "learner"));
  ASSIGN_OR_RETURN(recipe.prompts, ValueOf(method.prompts, kTeacherPromptsWords, "prompts"));
  ASSIGN_OR_RETURN(recipe.hidden,
                   ValueOf(method.hidden_states, kHiddenStatesWords, "hidden states"));
  recipe.questions = method.questions;
  recipe.outputs = method.outputs;
  recipe.output_tokens = method.output_tokens;
  recipe.keep = method.keep;
  recipe.rank = method.rank;
  recipe.virtual_tokens = method.virtual_tokens;
  recipe.alpha = method.alpha;
  recipe.learning_rate_factor = method.learning_rate_factor;
  recipe.passes = method.passes;
  recipe.batch = method.batch;
  recipe.window_tokens = method.window_tokens;
  recipe.held_out_share = method.held_out_share;
  recipe.seed = job.seed;
  return recipe;
}

JobAtWork::JobAtWork(const JobRunnerParts& parts, const JobRunnerSettings& settings,
                     LearningJob job)
    : parts_(parts), settings_(settings), store_(parts.jobs.store()), job_(std::move(job)) {}

void JobAtWork::Tell(const std::string& message, const Json& data) {
  const Status told =
      store_.AddEvent(job_.id, {.message = message, .data = data.is_null() ? "" : DumpJson(data)});
  if (!told.ok()) LOG_WARN("fine-tuning job {}: {}", job_.id, told.message());
}

void JobAtWork::Tell(const std::string& message) { Tell(message, Json()); }

Status JobAtWork::CheckWanted() {
  if (parts_.jobs.is_stopping()) return Status(StatusCode::kAborted, "the server ends");
  const Result<bool> is_cancelled = store_.IsCancelled(job_.id);
  if (!is_cancelled.ok()) return LeftBy(is_cancelled.status());
  return *is_cancelled ? Status(StatusCode::kCancelled, "cancelled") : OkStatus();
}

Status JobAtWork::Begin() {
  RETURN_IF_ERROR(CheckWanted());
  const std::string& base = parts_.jobs.setup().base_model;
  if (!base.empty() && job_.base_model != base) {
    return FailedPreconditionError("the job is for the base model '" + job_.base_model +
                                   "', and this server has '" + base + "' by now");
  }
  if (job_.started_at == 0) {
    job_.started_at = store_.now();
    Tell("Validating training file: " + job_.training_file);
  } else {
    Tell("The job goes on: the server that ran it has ended");
  }
  job_.status = JobStatus::kValidating;
  return LeftBy(store_.Update(job_));
}

Status JobAtWork::Run() {
  RETURN_IF_ERROR(Begin());
  const Result<LearningFile> file = store_.FindFile(job_.tenant, job_.training_file);
  if (!file.ok()) return LeftBy(file.status());
  const Result<std::string> content = store_.FileContent(job_.tenant, job_.training_file);
  if (!content.ok()) return LeftBy(content.status());
  Status wanted;
  const Result<Document> read =
      DocumentOf(*file, *content, [this, &wanted] { return (wanted = CheckWanted()).ok(); });
  RETURN_IF_ERROR(wanted);
  ASSIGN_OR_RETURN(const Document document, read);
  for (const std::string& note : document.notes) Tell(file->name + ": " + note);
  ASSIGN_OR_RETURN(recipe_, RecipeOf(job_));
  RETURN_IF_ERROR(ResolvePrompts(settings_.model_dir, &recipe_));
  ASSIGN_OR_RETURN(const LearnerInput input,
                   LearnerInputOf(recipe_, document.text, parts_.tokenizer));
  ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner,
                   MakeLearner(recipe_, parts_.tokenizer, settings_.model_dir));
  stage_ = Stage::kTraining;
  RETURN_IF_ERROR(CheckContext(recipe_, *learner, parts_.model.config, "window_tokens"));
  const LearnerInput* const inputs[] = {&input};
  LearnSizes sizes = SizesOfDocuments(recipe_, *learner, inputs);
  sizes.threads = parts_.model.threads->num_threads();
  ASSIGN_OR_RETURN(
      const TrainingLimits limits,
      FitTraining(sizes, parts_.model.shape(), settings_.bytes_max, *parts_.model.budget));
  job_.status = JobStatus::kRunning;
  RETURN_IF_ERROR(LeftBy(store_.Update(job_)));
  Tell("Fine-tuning job started: " + std::to_string(input.tokens.size()) + " tokens");
  stage_ = Stage::kReading;  // a document that is too short shows here
  ASSIGN_OR_RETURN(LearnerData data, Prepare(*learner, input));
  stage_ = Stage::kTraining;
  const LearnerRates rates = RatesOf(recipe_, *learner);
  job_.trained_tokens = TokensIn(data) * rates.passes;
  const TrainedShape shape = ShapeOf(recipe_, *learner, data.text.size());
  const OrderedJson origin = OriginJson(recipe_, *learner, shape, parts_.model, settings_.base,
                                        document, input.tokens.size());
  std::optional<Trainer> trainer;
  {
    const Piece piece(parts_.turns);
    trainer.emplace(
        parts_.model.config, parts_.model.weights, limits, parts_.stream,
        [this] { parts_.turns->Pause(); }, parts_.device_turns);
  }
  std::optional<TrainingRun> run;
  {
    const Piece piece(parts_.turns);
    run.emplace(*trainer, std::move(data), rates, shape, recipe_.seed, origin.dump());
  }
  RETURN_IF_ERROR(Train(*run, *trainer));
  return Publish(*run, origin);
}

// Beside other tenants' requests the texts are those of a tenant that has the share of learning.
Result<LearnerData> JobAtWork::Prepare(Learner& learner, const LearnerInput& input) {
  if (!learner.writes()) return learner.Prepare(input, nullptr);
  Tell("The base model writes about the document");
  const double share = settings_.share;
  Status wanted;
  EngineWriter writer(
      parts_.generator,
      {.tenant = job_.tenant + " (learning)",
       .tenant_weight =
           std::clamp(static_cast<float>(share / (1.0 - share)), kWeightMin, kWeightMax),
       .orders_at_once = kOrdersAtOnce,
       .first_id = kFirstWriterId,
       .on_text = [this, &wanted](int64_t, int64_t) { return (wanted = CheckWanted()).ok(); }});
  Result<LearnerData> data = learner.Prepare(input, &writer);
  if (data.ok()) data->hidden = recipe_.hidden;
  RETURN_IF_ERROR(wanted);
  if (!data.ok() && parts_.jobs.is_stopping()) return CheckWanted();
  return data;
}

Status JobAtWork::Train(TrainingRun& run, Trainer& trainer) {
  ASSIGN_OR_RETURN(const bool resumed,
                   run.Resume(settings_.checkpoints + "/" + job_.checkpoint_name()));
  if (resumed) {
    Tell("Going on from step " + std::to_string(run.step()));
  } else {
    const Piece piece(parts_.turns);
    run.Begin();
  }
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  const int32_t first = run.step();
  const int32_t every = std::max(1, run.num_steps() / kEventsMax);
  int64_t saved_ns = begin_ns;
  TrainingRun* const runs[] = {&run};
  while (!run.is_done()) {
    {
      const Piece piece(parts_.turns);
      StepTogether(trainer, runs);
    }
    if (!std::isfinite(run.last_loss())) {
      return FailedPreconditionError("the document was not learned: at step " +
                                     std::to_string(run.step()) +
                                     " its loss is no number any more; lower "
                                     "learning_rate_multiplier");
    }
    const int64_t now_ns = SteadyClock::Get().NowNs();
    if (run.step() == first + 1 || run.step() % every == 0 || run.is_done()) {
      TellStep(run, NsToSeconds(now_ns - begin_ns) / (run.step() - first));
    }
    const Status wanted = CheckWanted();
    const bool is_time = now_ns - saved_ns >= int64_t{settings_.checkpoint_seconds} * 1'000'000'000;
    if (wanted.code() == StatusCode::kAborted || (is_time && !run.is_done())) {
      RETURN_IF_ERROR(SaveCheckpoint(run));
      saved_ns = SteadyClock::Get().NowNs();
    }
    RETURN_IF_ERROR(wanted);
  }
  const Piece piece(parts_.turns);
  run.Finish();
  return OkStatus();
}

void JobAtWork::TellStep(const TrainingRun& run, double seconds_a_step) {
  Tell("Step " + std::to_string(run.step()) + "/" + std::to_string(run.num_steps()) +
           ": training loss=" + Rounded(run.last_loss()),
       {{"step", run.step()}, {"total_steps", run.num_steps()}, {"train_loss", run.last_loss()}});
  job_.estimated_finish =
      store_.now() + static_cast<int64_t>(seconds_a_step * (run.num_steps() - run.step()) + 0.5);
  const Status written = store_.Update(job_);
  if (!written.ok()) LOG_WARN("fine-tuning job {}: {}", job_.id, written.message());
}

Status JobAtWork::SaveCheckpoint(TrainingRun& run) {
  RETURN_IF_ERROR(run.SaveCheckpoint(settings_.checkpoints + "/" + job_.folder_name()));
  const Status added = store_.AddCheckpoint(job_.id, {.step = run.step(), .loss = run.last_loss()});
  if (!IsPassing(added) || added.code() == StatusCode::kAborted) return added;
  LOG_WARN("fine-tuning job {}: {}", job_.id, added.message());
  return OkStatus();
}

// A kill at any point in here leaves a job that runs, and whose end comes out the same.
Status JobAtWork::Publish(TrainingRun& run, const OrderedJson& origin) {
  RETURN_IF_ERROR(CheckLearned("the document", run.scores(), "lower learning_rate_multiplier"));
  OrderedJson provenance = origin;
  provenance["scores"] = ScoresJson(run.scores());
  ASSIGN_OR_RETURN(const std::string hash,
                   WriteLearnedFolder(folder(), parts_.model.config, {run.lora(), run.prompt()},
                                      parts_.model.weights.dtype, parts_.model.name, provenance));
  const std::string name = LearnedName(job_);
  ASSIGN_OR_RETURN(const AdapterInfo adapter, parts_.catalog.Load({.name = name,
                                                                   .path = folder(),
                                                                   .replace = true,
                                                                   .tenant = job_.tenant,
                                                                   .hash = hash,
                                                                   .owner = job_.tenant}));
  job_.adapter = name;
  job_.hash = adapter.hash;
  job_.rank_max = adapter.rank_max;
  job_.num_virtual_tokens = adapter.num_virtual_tokens;
  job_.bytes = adapter.bytes;
  job_.base_hash = settings_.base.text_hash + settings_.base.weights_hash;
  const TrainingScores& scores = run.scores();
  Tell("New fine-tuned model created",
       {{"step", run.step()},
        {"base_loss", scores.before},
        {"train_loss", scores.after},
        {"base_valid_loss", scores.num_held_out_rows > 0 ? Json(scores.held_out_before) : Json()},
        {"valid_loss", scores.num_held_out_rows > 0 ? Json(scores.held_out_after) : Json()}});
  return OkStatus();
}

}  // namespace graft
