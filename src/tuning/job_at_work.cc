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
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "document/document.h"
#include "learn/learned_folder.h"
#include "tuning/counted_writer.h"
#include "tuning/engine_writer.h"
#include "tuning/held_out_answers.h"
#include "tuning/kept_writer.h"
#include "tuning/learn_memory.h"

namespace graft {
namespace {

constexpr int32_t kEventsMax = 100;   // of a job's steps
constexpr size_t kOrdersAtOnce = 8;   // of texts that are written beside other requests
constexpr float kWeightMin = 0.001f;  // of a tenant
constexpr float kWeightMax = 1000.0f;
// No request over HTTP comes to have such an id.
constexpr uint64_t kFirstWriterId = uint64_t{1} << 62;
constexpr uint64_t kIdsOfWriter = uint64_t{1} << 40;
constexpr int64_t kNsOfSecond = 1'000'000'000;
constexpr int64_t kLookForOthersNs = 5 * kNsOfSecond;

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

// A fault that may pass costs no job: the job goes on from its checkpoint once it has.
Status LeftBy(const Status& status) {
  return IsPassing(status) ? Status(StatusCode::kAborted, status.message()) : status;
}

// Others may compute for as long as it lives, within a Piece.
class Rest {
 public:
  explicit Rest(Turns* turns) : turns_(turns) {
    if (turns_ != nullptr) turns_->EndPiece();
  }
  ~Rest() {
    if (turns_ != nullptr) turns_->BeginPiece();
  }
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;

 private:
  Turns* const turns_;
};

int64_t NowNs() { return SteadyClock::Get().NowNs(); }

// What texts depend on besides what is asked for, as `graft learn --texts` has it.
std::string WrittenBy(const LoadedModel& model, const BaseIdentity& base) {
  return base.text_hash + base.weights_hash + std::string(DTypeName(model.weights.dtype)) +
         (model.device.is_cpu() ? "cpu" : "gpu");
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
  if (method.hidden_states != "none") {
    return InvalidArgumentError(std::string("hidden_states ") + kHiddenStatesRemoved);
  }
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
  if (recipe.batch > kTrainingSequencesMax) {
    return InvalidArgumentError("batch_size is " + std::to_string(recipe.batch) + ", " +
                                std::to_string(kTrainingSequencesMax) + " at most");
  }
  recipe.window_tokens = method.window_tokens;
  recipe.held_out_share = method.held_out_share;
  recipe.seed = job.seed;
  return recipe;
}

JobAtWork::JobAtWork(const JobRunnerParts& parts, const JobRunnerSettings& settings,
                     LearningJob job)
    : parts_(parts),
      settings_(settings),
      store_(parts.jobs.store()),
      job_(std::move(job)),
      next_writer_id_(kFirstWriterId) {}

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

Status JobAtWork::CheckTurn() {
  if (!got_on_) return OkStatus();
  const int64_t now_ns = NowNs();
  if (now_ns - turn_ns_ < int64_t{settings_.turn_seconds} * kNsOfSecond) return OkStatus();
  if (now_ns - looked_ns_ < kLookForOthersNs) return OkStatus();
  looked_ns_ = now_ns;
  const Result<bool> others = store_.OthersWait(job_);
  if (!others.ok() || !*others) return OkStatus();
  made_way_ = true;
  return Status(StatusCode::kAborted, "it is another tenant's turn");
}

void JobAtWork::GetOn() {
  got_on_ = true;
  if (job_.begins <= 1) return;
  const Status told = store_.GotOn(job_.id);
  if (told.ok()) {
    job_.begins = 1;
  } else {
    LOG_WARN("fine-tuning job {}: {}", job_.id, told.message());
  }
}

Status JobAtWork::Begin() {
  RETURN_IF_ERROR(CheckWanted());
  if (job_.begins > kJobBeginsMax) {
    return FailedPreconditionError(std::to_string(kJobBeginsMax) +
                                   " servers ended while they ran this job before it got on, and "
                                   "it is not begun again: create another one, with less to learn "
                                   "at once");
  }
  const std::string& base = parts_.jobs.setup().base_model;
  if (!base.empty() && job_.base_model != base) {
    return FailedPreconditionError("the job is for the base model '" + job_.base_model +
                                   "', and this server has '" + base + "' by now");
  }
  if (job_.started_at == 0) {
    job_.started_at = store_.now();
    Tell("Validating training file: " + job_.training_file);
  } else {
    Tell("The job goes on");
  }
  job_.status = JobStatus::kValidating;
  return LeftBy(store_.Update(job_));
}

Result<Document> JobAtWork::ReadDocument() {
  const Result<LearningFile> file = store_.FindFile(job_.tenant, job_.training_file);
  if (!file.ok()) return LeftBy(file.status());
  const Result<std::string> content = store_.FileContent(job_.tenant, job_.training_file);
  if (!content.ok()) return LeftBy(content.status());
  Status wanted;
  Result<Document> document =
      DocumentOf(*file, *content, [this, &wanted] { return (wanted = CheckWanted()).ok(); });
  RETURN_IF_ERROR(wanted);
  if (!document.ok()) return LeftBy(document.status());
  for (const std::string& note : document->notes) Tell(file->name + ": " + note);
  return document;
}

// What a client cannot help is this server's, and told in its log.
Result<std::unique_ptr<Learner>> JobAtWork::MakeItsLearner() {
  const auto own = [](const Status& status) {
    const bool is_asked_for = status.code() == StatusCode::kFailedPrecondition ||
                              status.code() == StatusCode::kUnimplemented;
    if (is_asked_for || IsPassing(status)) return LeftBy(status);
    return InternalError(status.message());
  };
  const Status resolved = ResolvePrompts(settings_.model_dir, &recipe_);
  if (!resolved.ok()) return own(resolved);
  Result<std::unique_ptr<Learner>> learner =
      MakeLearner(recipe_, parts_.tokenizer, settings_.model_dir);
  if (!learner.ok()) return own(learner.status());
  return learner;
}

Status JobAtWork::LackOfHost(const Status& status) const {
  const bool had_enough = FileExists(settings_.checkpoints + "/" + job_.checkpoint_name());
  return {had_enough ? StatusCode::kAborted : StatusCode::kResourceExhausted, status.message()};
}

Status JobAtWork::CheckTexts(const Learner& learner, const LearnerInput& input) const {
  const auto window = static_cast<int32_t>(
      std::min(input.tokens.size(), static_cast<size_t>(recipe_.window_tokens)));
  const int32_t tokens = learner.TeacherTokensMax(window);
  const int32_t tokens_max = parts_.generator.limits().context_tokens_max;
  if (tokens <= tokens_max) return OkStatus();
  LOG_WARN("fine-tuning job {}: texts of {} tokens take more --context-tokens-max or --pool-gib",
           job_.id, tokens);
  return InvalidArgumentError("the base would read and write up to " + std::to_string(tokens) +
                              " tokens at once, and this server takes " +
                              std::to_string(tokens_max) + ": lower window_tokens (" +
                              std::to_string(recipe_.window_tokens) + ") or output_tokens (" +
                              std::to_string(recipe_.output_tokens) + ")");
}

// Before anything is written or computed.
Status JobAtWork::CheckLength(const Learner& learner, const LearnerInput& input) {
  const int64_t of_pass = learner.DataMax(input, kTextChoicesMax).tokens;
  const int64_t passes = RatesOf(recipe_, learner).passes;
  return CheckJobLength(of_pass, passes, settings_.job_tokens_max);
}

Status JobAtWork::Run() {
  RETURN_IF_ERROR(Begin());
  ASSIGN_OR_RETURN(const Document document, ReadDocument());
  stage_ = Stage::kTraining;
  ASSIGN_OR_RETURN(recipe_, RecipeOf(job_));
  ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner, MakeItsLearner());
  stage_ = Stage::kReading;
  ASSIGN_OR_RETURN(const LearnerInput input,
                   LearnerInputOf(recipe_, document.text, parts_.tokenizer));
  stage_ = Stage::kTraining;
  RETURN_IF_ERROR(CheckContext(recipe_, *learner, parts_.model.config, "window_tokens"));
  RETURN_IF_ERROR(CheckTexts(*learner, input));
  RETURN_IF_ERROR(CheckLength(*learner, input));
  const LearnerInput* const inputs[] = {&input};
  LearnSizes sizes = SizesOfDocuments(recipe_, *learner, inputs);
  sizes.threads = parts_.model.threads->num_threads();
  const Result<TrainingFit> fits =
      FitTraining(sizes, parts_.model.shape(), settings_.bytes_max, *parts_.model.budget);
  if (fits.status().code() == StatusCode::kUnavailable) return LackOfHost(fits.status());
  ASSIGN_OR_RETURN(const TrainingFit fit, fits);
  job_.status = JobStatus::kRunning;
  RETURN_IF_ERROR(LeftBy(store_.Update(job_)));
  Tell("Fine-tuning job started: " + std::to_string(input.tokens.size()) + " tokens");
  ASSIGN_OR_RETURN(LearnerData data, Prepare(*learner, input, fit.data_bytes_max));
  RETURN_IF_ERROR(CheckExamples(data, sizes));
  asked_ = std::move(data.asked);
  const LearnerRates rates = RatesOf(recipe_, *learner);
  job_.trained_tokens = TokensIn(data) * rates.passes;
  const TrainedShape shape = ShapeOf(recipe_, *learner, data.text.size());
  const OrderedJson origin = OriginJson(recipe_, *learner, shape, parts_.model, settings_.base,
                                        document, input.tokens.size());
  std::optional<Trainer> trainer;
  {
    const Piece piece(parts_.turns);
    trainer.emplace(
        parts_.model.config, parts_.model.weights, fit.limits, parts_.stream,
        [this] { parts_.turns->Pause(); }, parts_.device_turns);
  }
  // Its numbers are drawn and rounded by this thread alone, beside the steps.
  TrainingRun run(*trainer, std::move(data), rates, shape, recipe_.seed,
                  RunIdentity(origin, parts_.model));
  Status ended = Train(run, *trainer);
  if (ended.ok()) ended = Publish(run, origin);
  // A job that is left goes on from where it is.
  if (ended.code() == StatusCode::kAborted && has_resumed_) RETURN_IF_ERROR(SaveCheckpoint(run));
  return ended;
}

// Beside other tenants' requests the texts are those of a tenant that has the share of learning.
WriterSettings JobAtWork::WriterOf(const std::function<bool()>& goes_on,
                                   const std::string& adapter) {
  const double share = settings_.share;
  const uint64_t first_id = next_writer_id_;
  next_writer_id_ += kIdsOfWriter;
  return {.tenant = job_.tenant + " (learning)",
          .tenant_weight =
              std::clamp(static_cast<float>(share / (1.0 - share)), kWeightMin, kWeightMax),
          .orders_at_once = kOrdersAtOnce,
          .first_id = first_id,
          .adapter = adapter,
          .on_text = [goes_on](int64_t, int64_t) { return goes_on(); },
          .wait =
              [this, goes_on](std::chrono::seconds time) {
                parts_.jobs.WaitForStop(time);
                return goes_on();
              }};
}

// The texts are kept with the checkpoints, where the job finds them when it goes on.
Result<LearnerData> JobAtWork::Prepare(Learner& learner, const LearnerInput& input,
                                       int64_t bytes_max) {
  // A document that is too short is found out here.
  const auto of_file = [this](const Status& status) {
    if (status.code() == StatusCode::kInvalidArgument) stage_ = Stage::kReading;
    return LeftBy(status);
  };
  if (!learner.writes()) {
    Result<LearnerData> data = learner.Prepare(input, nullptr);
    if (!data.ok()) return of_file(data.status());
    return data;
  }
  Tell("The base model writes about the document");
  Status wanted;
  const auto goes_on = [this, &wanted] {
    wanted = CheckWanted();
    if (wanted.ok()) wanted = CheckTurn();
    return wanted.ok();
  };
  turn_ns_ = NowNs();
  EngineWriter writer(parts_.generator, WriterOf(goes_on, ""));
  KeptWriter kept(writer, texts_folder(), WrittenBy(parts_.model, settings_.base),
                  [this] { GetOn(); });
  CountedWriter counted(kept, bytes_max);
  Result<LearnerData> data = learner.Prepare(input, &counted);
  RETURN_IF_ERROR(wanted);
  if (data.status().code() == StatusCode::kResourceExhausted) {
    return parts_.model.device.is_cpu() ? data.status() : LackOfHost(data.status());
  }
  if (!data.ok()) return of_file(data.status());
  return data;
}

bool JobAtWork::IsCheckpointDue() const {
  return NowNs() - saved_ns_ >= int64_t{settings_.checkpoint_seconds} * kNsOfSecond;
}

Status JobAtWork::BetweenBatches(TrainingRun& run) {
  const Rest rest(parts_.turns);
  RETURN_IF_ERROR(CheckWanted());
  return IsCheckpointDue() ? SaveCheckpoint(run) : OkStatus();
}

Status JobAtWork::Train(TrainingRun& run, Trainer& trainer) {
  const Result<bool> resumed = run.Resume(settings_.checkpoints + "/" + job_.checkpoint_name());
  if (!resumed.ok()) return LeftBy(resumed.status());
  has_resumed_ = true;
  saved_progress_ = run.progress();
  if (*resumed) Tell("Going on from step " + std::to_string(run.step()));
  saved_ns_ = NowNs();
  run.set_on_batch([this, &run] { return BetweenBatches(run); });
  {
    const Piece piece(parts_.turns);
    RETURN_IF_ERROR(run.Begin());
  }
  RETURN_IF_ERROR(MakeSteps(run, trainer));
  const Piece piece(parts_.turns);
  return run.Finish();
}

Status JobAtWork::MakeSteps(TrainingRun& run, Trainer& trainer) {
  const int64_t begin_ns = NowNs();
  turn_ns_ = begin_ns;
  const int32_t first = run.step();
  const int32_t every = std::max(1, (run.num_steps() + kEventsMax - 1) / kEventsMax);
  TrainingRun* const runs[] = {&run};
  while (!run.is_done()) {
    {
      const Piece piece(parts_.turns);
      StepTogether(trainer, runs);
      got_on_ = true;
      RETURN_IF_ERROR(run.Look());
    }
    if (!std::isfinite(run.last_loss())) {
      return FailedPreconditionError("the document was not learned: at step " +
                                     std::to_string(run.step()) +
                                     " its loss is no number any more; lower "
                                     "learning_rate_multiplier");
    }
    if (run.step() == first + 1 || run.step() % every == 0 || run.is_done()) {
      TellStep(run, NsToSeconds(NowNs() - begin_ns) / (run.step() - first));
    }
    RETURN_IF_ERROR(CheckWanted());
    if (!run.is_done()) RETURN_IF_ERROR(CheckTurn());
    // The last step's, too: whatever comes behind it is then done again from there.
    if (run.is_done() || IsCheckpointDue()) RETURN_IF_ERROR(SaveCheckpoint(run));
  }
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
  saved_ns_ = NowNs();
  const Status saved = run.SaveCheckpoint(settings_.checkpoints + "/" + job_.folder_name());
  const Status added =
      saved.ok() ? store_.AddCheckpoint(job_.id, {.step = run.step(), .loss = run.last_loss()})
                 : saved;
  if (added.ok() && std::exchange(saved_progress_, run.progress()) != run.progress()) GetOn();
  if (added.ok() || added.code() == StatusCode::kAborted) return added;
  LOG_WARN("fine-tuning job {}: no checkpoint at step {}: {}", job_.id, run.step(),
           added.message());
  if (!std::exchange(has_warned_, true)) {
    Tell("The server could not write a checkpoint; the job goes on");
  }
  return OkStatus();
}

// The questions that it was not taught, to the adapter and to the base. What is not known of it
// costs no job: the adapter is there.
void JobAtWork::TellWhatIsKnown(const AdapterInfo& adapter) {
  const HeldOutQuiz quiz = MakeQuiz(asked_, parts_.tokenizer);
  if (quiz.orders.empty()) return;
  const auto goes_on = [this] { return CheckWanted().ok(); };
  EngineWriter pupil(parts_.generator, WriterOf(goes_on, adapter.key()));
  EngineWriter base(parts_.generator, WriterOf(goes_on, ""));
  const auto answers = AskHeldOut(quiz, pupil, base, parts_.tokenizer);
  if (!answers.ok()) {
    LOG_WARN("fine-tuning job {}: what its adapter knows is not known: {}", job_.id,
             answers.status().message());
    return;
  }
  const OrderedJson json = HeldOutAnswersJson(**answers);
  const Status added = AddToScores(folder(), "held_out_answers", json);
  if (!added.ok()) LOG_WARN("fine-tuning job {}: {}", job_.id, added.message());
  const std::string warning = WarnOfAnswers(**answers, "more n_epochs or questions teach it more");
  const Status told = store_.AddEvent(
      job_.id,
      {.level = warning.empty() ? "info" : "warn",
       .message = warning.empty() ? "The model answers " + DescribeAnswers(**answers) : warning,
       .data = json.dump()});
  if (!told.ok()) LOG_WARN("fine-tuning job {}: {}", job_.id, told.message());
}

// A kill at any point in here leaves a job that runs, and that comes to the same end.
Status JobAtWork::Publish(TrainingRun& run, const OrderedJson& origin) {
  RETURN_IF_ERROR(CheckLearned("the document", run.scores(), "lower learning_rate_multiplier"));
  // What fails from here on is the server's fault. If it may pass, the job goes on later.
  const auto own = [this](const Status& status) {
    lacks_memory_ = status.code() == StatusCode::kResourceExhausted;
    return IsPassing(status) ? LeftBy(status) : InternalError(status.message());
  };
  OrderedJson provenance = origin;
  provenance["scores"] = ScoresJson(run.scores());
  const Result<std::string> hash =
      WriteLearnedFolder(folder(), parts_.model.config, {run.lora(), run.prompt()},
                         parts_.model.weights.dtype, parts_.model.name, provenance);
  if (!hash.ok()) return own(hash.status());
  const std::string name = LearnedName(job_);
  const Result<AdapterInfo> loaded = parts_.catalog.Load({.name = name,
                                                          .path = folder(),
                                                          .replace = true,
                                                          .tenant = job_.tenant,
                                                          .hash = *hash,
                                                          .owner = job_.tenant});
  if (!loaded.ok()) return own(loaded.status());
  const AdapterInfo& adapter = *loaded;
  job_.adapter = name;
  job_.hash = adapter.hash;
  job_.rank_max = adapter.rank_max;
  job_.num_virtual_tokens = adapter.num_virtual_tokens;
  job_.bytes = adapter.bytes;
  job_.base_hash = settings_.base.text_hash + settings_.base.weights_hash;
  TellWhatIsKnown(adapter);
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
