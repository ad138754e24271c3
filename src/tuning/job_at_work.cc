#include "tuning/job_at_work.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "document/document.h"
#include "tuning/counted_writer.h"
#include "tuning/engine_writer.h"
#include "tuning/held_out_answers.h"
#include "tuning/kept_writer.h"

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

}  // namespace

JobAtWork::JobAtWork(const JobRunnerParts& parts, const JobRunnerSettings& settings,
                     LearningJob job)
    : parts_(parts),
      settings_(settings),
      store_(parts.jobs.store()),
      job_(std::move(job)),
      next_writer_id_(kFirstWriterId) {}

void JobAtWork::Tell(const std::string& message, const Json& data, const char* level) {
  const Status told = store_.AddEvent(
      job_.id, {.level = level, .message = message, .data = data.is_null() ? "" : DumpJson(data)});
  if (!told.ok()) LOG_WARN("fine-tuning job {}: {}", job_.id, told.message());
}

Status JobAtWork::CheckWanted() {
  if (parts_.jobs.is_stopping()) return Status(StatusCode::kAborted, "the server ends");
  const Result<bool> is_cancelled = store_.IsCancelled(job_.id);
  if (!is_cancelled.ok()) return LeftBy(is_cancelled.status());
  return *is_cancelled ? Status(StatusCode::kCancelled, "cancelled") : OkStatus();
}

Status JobAtWork::CheckTurn() {
  if (!got_on_) return OkStatus();
  const int64_t now_ns = NowNs();
  if (now_ns - turn_ns_ < int64_t{settings_.options.turn_seconds} * kNsOfSecond) return OkStatus();
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

Result<Document> JobAtWork::ReadDocument(const std::string& id) {
  const Result<LearningFile> file = store_.FindFile(job_.tenant, id);
  if (!file.ok()) return LeftBy(file.status());
  const Result<std::string> content = store_.FileContent(job_.tenant, id);
  if (!content.ok()) return LeftBy(content.status());
  Status wanted;
  Result<Document> document = DocumentText(
      *content, file->name,
      {.pdf = {}, .is_wanted = [this, &wanted] { return (wanted = CheckWanted()).ok(); }});
  RETURN_IF_ERROR(wanted);
  if (!document.ok()) return LeftBy(document.status());
  for (const std::string& note : document->notes) Tell(file->name + ": " + note);
  return document;
}

// What a client cannot help is this server's, and told in its log.
Status JobAtWork::MakeItsPlan() {
  ASSIGN_OR_RETURN(LearnRecipe recipe, RecipeOf(job_.method, job_.seed));
  stage_ = Stage::kReadingKept;
  for (const std::string& file : job_.method.keep_text) {
    Result<Document> document = ReadDocument(file);
    if (!document.ok()) return document.status().WithContext("keep_text");
    recipe.keep_texts.push_back(std::move(*document));
  }
  stage_ = Stage::kTraining;
  Result<LearningPlan> plan =
      MakePlan(std::move(recipe), WordsOfJobs(), parts_.tokenizer, settings_.model_dir);
  if (!plan.ok()) {
    const Status& status = plan.status();
    const bool is_asked_for = status.code() == StatusCode::kFailedPrecondition ||
                              status.code() == StatusCode::kUnimplemented;
    return is_asked_for || IsPassing(status) ? LeftBy(status) : InternalError(status.message());
  }
  plan_ = std::move(*plan);
  return OkStatus();
}

Status JobAtWork::LackOfHost(const Status& status) const {
  const bool had_enough = FileExists(settings_.checkpoints + "/" + job_.checkpoint_name());
  return {had_enough ? StatusCode::kAborted : StatusCode::kResourceExhausted, status.message()};
}

// Before anything is written or computed. How much a job may learn is the server's to limit: a
// command's user waits for as long as it takes.
Status JobAtWork::CheckLengths() {
  const Status texts = CheckTexts(plan_, parts_.generator.limits());
  if (!texts.ok()) {
    LOG_WARN("fine-tuning job {}: {}: more --context-tokens-max or --pool-gib takes them", job_.id,
             texts.message());
    return texts;
  }
  const LearnerDataSize most = plan_.learner->DataMax(plan_.documents[0].input, kTextChoicesMax);
  const int32_t passes = RatesOf(plan_).PassesFor(static_cast<size_t>(most.examples));
  return CheckJobLength(most.tokens, passes, settings_.options.limits.job_tokens_max);
}

Status JobAtWork::Run() {
  RETURN_IF_ERROR(Begin());
  ASSIGN_OR_RETURN(Document document, ReadDocument(job_.training_file));
  stage_ = Stage::kTraining;
  RETURN_IF_ERROR(MakeItsPlan());
  stage_ = Stage::kReading;
  RETURN_IF_ERROR(AddDocument({.document = std::move(document),
                               .folder = folder(),
                               .checkpoint = settings_.checkpoints + "/" + job_.folder_name(),
                               .resume_from = settings_.checkpoints + "/" + job_.checkpoint_name()},
                              parts_.tokenizer, &plan_));
  stage_ = Stage::kTraining;
  if (plan_.recipe.learner == LearnerKind::kEncoder) return Encode();
  if (plan_.recipe.begins_encoded) RETURN_IF_ERROR(BeginByEncoder());
  if (parts_.encoder != nullptr) parts_.encoder->Release();
  return Train();
}

// The engine may take less at once than the model would.
Status JobAtWork::CheckMemoryIsAnswered(int32_t memory_tokens) const {
  constexpr int32_t kQuestionTokensMin = 2;  // with the first token of its answer
  const int32_t context = parts_.generator.limits().context_tokens_max;
  if (memory_tokens <= context - kQuestionTokensMin) return OkStatus();
  return InvalidArgumentError(
      "a memory of " + std::to_string(memory_tokens) +
      " tokens leaves no room for questions in the " + std::to_string(context) +
      " tokens that this server takes: a larger compression makes room, and so do adapters of the "
      "document's parts");
}

Result<EncoderAtWork*> JobAtWork::Encoder(int32_t compression) {
  stage_ = Stage::kReading;  // a document may be too long
  ASSIGN_OR_RETURN(const EncoderRoom room,
                   RoomFor(parts_.encoder->known(), plan_, compression, parts_.model.config));
  RETURN_IF_ERROR(CheckMemoryIsAnswered(room.memory_tokens));
  stage_ = Stage::kTraining;
  Result<EncoderAtWork*> encoder = parts_.encoder->With(room);
  if (encoder.status().code() == StatusCode::kUnavailable) return LackOfHost(encoder.status());
  return encoder;
}

Status JobAtWork::Encode() {
  if (parts_.encoder == nullptr) return HasNoEncoder();
  const KnownEncoder& known = parts_.encoder->known();
  const LearningDocument& document = plan_.documents[0];
  const int32_t compression = known.CompressionOr(plan_.recipe.method.compression);
  ASSIGN_OR_RETURN(EncoderAtWork* const encoder, Encoder(compression));
  job_.status = JobStatus::kRunning;
  job_.trained_tokens = static_cast<int64_t>(document.input.tokens.size());
  RETURN_IF_ERROR(LeftBy(store_.Update(job_)));
  Tell("The encoder reads " + std::to_string(job_.trained_tokens) + " tokens");
  ASSIGN_OR_RETURN(const LearnedAdapter adapter,
                   encoder->Read(document.input.tokens, compression, ComputeWhileWanted()));
  RETURN_IF_ERROR(CheckWanted());
  const int32_t memory = adapter.prompt->num_tokens();
  return Publish(
      OriginOfEncoded(known, compression, plan_, document, memory, parts_.model, settings_.base),
      adapter, {{"compression", compression}, {"virtual_tokens", memory}});
}

Status JobAtWork::BeginByEncoder() {
  if (parts_.encoder == nullptr) return HasNoEncoder();
  RETURN_IF_ERROR(BeginEncoded(parts_.encoder->known(), parts_.model.config, &plan_));
  ASSIGN_OR_RETURN(EncoderAtWork* const encoder, Encoder(plan_.begins.compression));
  return ReadBeginnings(*encoder, &plan_, ComputeWhileWanted());
}

Status JobAtWork::Train() {
  LearnSizes sizes = SizesOfPlan(plan_);
  sizes.threads = parts_.model.threads->num_threads();
  RETURN_IF_ERROR(CheckPlan(plan_, sizes, parts_.model.config));
  RETURN_IF_ERROR(CheckLengths());
  const Result<TrainingFit> fits = FitTraining(
      sizes, parts_.model.shape(), GibToBytes(settings_.options.gib), *parts_.model.budget);
  if (fits.status().code() == StatusCode::kUnavailable) return LackOfHost(fits.status());
  ASSIGN_OR_RETURN(const TrainingFit fit, fits);
  job_.status = JobStatus::kRunning;
  RETURN_IF_ERROR(LeftBy(store_.Update(job_)));
  Tell("Fine-tuning job started: " + std::to_string(plan_.documents[0].input.tokens.size()) +
       " tokens");
  RETURN_IF_ERROR(Prepare(sizes, fit.data_bytes_max));
  const LearnerData& data = plan_.documents[0].data;
  job_.trained_tokens =
      TokensIn(data) *
      RatesOf(plan_).PassesFor(data.training.size() + static_cast<size_t>(data.kept_of_pass));
  std::optional<Trainer> trainer;
  {
    const Piece piece(parts_.turns);
    trainer.emplace(
        parts_.model.config, parts_.model.weights, fit.limits, parts_.stream,
        [this] { parts_.turns->Pause(); }, parts_.device_turns);
  }
  // Its numbers are drawn and rounded by this thread alone, beside the steps.
  TrainingGroup group(plan_, plan_.documents, parts_.model, settings_.base, *trainer, *this,
                      settings_.options.checkpoint_seconds);
  const Status ended = Learn(group);
  // A job that is left goes on from where it is.
  if (ended.code() == StatusCode::kAborted && has_resumed_) RETURN_IF_ERROR(group.Save());
  return ended;
}

Status JobAtWork::Learn(TrainingGroup& group) {
  RETURN_IF_ERROR(LeftBy(group.Begin()));
  has_resumed_ = true;
  RETURN_IF_ERROR(group.Train());
  return group.Finish([this, &group](size_t, TrainingRun& run, const LearnedAdapter& learned) {
    const TrainingScores& scores = run.scores();
    const bool held_out = scores.num_held_out_rows > 0;
    return Publish(group.ProvenanceOf(0, run), learned,
                   {{"step", run.step()},
                    {"base_loss", scores.before},
                    {"train_loss", scores.after},
                    {"base_valid_loss", held_out ? Json(scores.held_out_before) : Json()},
                    {"valid_loss", held_out ? Json(scores.held_out_after) : Json()}});
  });
}

// Beside other tenants' requests the texts are those of a tenant that has the share of learning.
WriterSettings JobAtWork::WriterOf(const std::function<bool()>& goes_on,
                                   const std::string& adapter) {
  const double share = settings_.options.share;
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

// The texts are kept with the checkpoints, where the job finds them when it goes on. They take no
// more memory than the server has for them; a command of its own has all that there is.
Status JobAtWork::Prepare(const LearnSizes& sizes, int64_t bytes_max) {
  Status wanted;
  const auto goes_on = [this, &wanted] {
    wanted = CheckWanted();
    if (wanted.ok()) wanted = CheckTurn();
    return wanted.ok();
  };
  if (plan_.writes) Tell("The base model writes about the document");
  turn_ns_ = NowNs();
  EngineWriter writer(parts_.generator, WriterOf(goes_on, ""));
  KeptWriter kept(writer, texts_folder(), TextsIdentity(parts_.model, settings_.base),
                  [this] { GetOn(); });
  CountedWriter counted(kept, bytes_max);
  std::vector<TextWriter*> writers;
  if (plan_.writes) writers.push_back(&counted);
  const Status prepared = PrepareAll(sizes, writers, {}, &plan_);
  RETURN_IF_ERROR(wanted);
  if (plan_.writes && prepared.code() == StatusCode::kResourceExhausted) {
    return parts_.model.device.is_cpu() ? prepared : LackOfHost(prepared);
  }
  // A document that is too short is found out here.
  if (prepared.code() == StatusCode::kInvalidArgument) stage_ = Stage::kReading;
  return LeftBy(prepared);
}

Status JobAtWork::Compute(const std::function<Status()>& part) {
  const Piece piece(parts_.turns);
  return part();
}

EncoderAtWork::Compute JobAtWork::ComputeWhileWanted() {
  return [this](const std::function<Status()>& window) {
    RETURN_IF_ERROR(CheckWanted());
    return Compute(window);
  };
}

Status JobAtWork::BetweenBatches(const std::function<Status()>& save) {
  const Rest rest(parts_.turns);
  RETURN_IF_ERROR(CheckWanted());
  return save();
}

void JobAtWork::OnBegin(const std::string&, const TrainingProgress& at, bool resumed) {
  saved_progress_ = at.looked_at;
  if (resumed) Tell("Going on from step " + std::to_string(at.step));
}

void JobAtWork::OnSteps(const TrainingProgress& at) {
  first_step_ = at.step;
  turn_ns_ = NowNs();
}

Status JobAtWork::OnStep(const TrainingProgress& at) {
  const bool is_done = at.step == at.num_steps;
  got_on_ = true;
  const int32_t every = std::max(1, (at.num_steps + kEventsMax - 1) / kEventsMax);
  if (at.step == first_step_ + 1 || at.step % every == 0 || is_done) {
    TellStep(at, NsToSeconds(NowNs() - turn_ns_) / (at.step - first_step_));
  }
  RETURN_IF_ERROR(CheckWanted());
  return is_done ? OkStatus() : CheckTurn();
}

void JobAtWork::TellStep(const TrainingProgress& at, double seconds_a_step) {
  Tell(fmt::format("Step {}/{}: training loss={:.3f}", at.step, at.num_steps, at.loss),
       {{"step", at.step}, {"total_steps", at.num_steps}, {"train_loss", at.loss}});
  job_.estimated_finish =
      store_.now() + static_cast<int64_t>(seconds_a_step * (at.num_steps - at.step) + 0.5);
  const Status written = store_.Update(job_);
  if (!written.ok()) LOG_WARN("fine-tuning job {}: {}", job_.id, written.message());
}

// Only one that the job's store refuses, since another runner has the job, is an end.
Status JobAtWork::OnCheckpoint(const std::string&, const TrainingProgress& at,
                               const Status& saved) {
  const Status added =
      saved.ok() ? store_.AddCheckpoint(job_.id, {.step = at.step, .loss = at.loss}) : saved;
  if (added.ok() && std::exchange(saved_progress_, at.looked_at) != at.looked_at) GetOn();
  if (added.ok() || added.code() == StatusCode::kAborted) return added;
  LOG_WARN("fine-tuning job {}: no checkpoint at step {}: {}", job_.id, at.step, added.message());
  if (!std::exchange(has_warned_, true)) {
    Tell("The server could not write a checkpoint; the job goes on");
  }
  return OkStatus();
}

// The questions that it was not taught, to the adapter and to the base. What is not known of it
// costs no job: the adapter is there.
void JobAtWork::TellWhatIsKnown(const AdapterInfo& adapter) {
  const HeldOutQuiz quiz = MakeQuiz(plan_.documents[0].asked, parts_.tokenizer);
  if (quiz.orders.empty()) return;
  const auto goes_on = [this] { return CheckWanted().ok(); };
  EngineWriter pupil(parts_.generator, WriterOf(goes_on, adapter.key()));
  EngineWriter base(parts_.generator, WriterOf(goes_on, ""));
  const auto answers = JudgeByAnswers(folder(), quiz, pupil, base, parts_.tokenizer);
  if (!answers.ok()) {
    LOG_WARN("fine-tuning job {}: what its adapter knows is not known: {}", job_.id,
             answers.status().message());
    return;
  }
  const std::string warning = WarnOfAnswers(**answers, plan_.words.teach_more);
  Tell(warning.empty() ? "The model answers " + DescribeAnswers(**answers) : warning,
       HeldOutAnswersJson(**answers), warning.empty() ? "info" : "warn");
}

// A kill at any point in here leaves a job that runs, and that comes to the same end.
Status JobAtWork::Publish(const OrderedJson& provenance, const LearnedAdapter& learned,
                          const Json& told) {
  // What fails from here on is the server's fault. If it may pass, the job goes on later.
  const auto own = [this](const Status& status) {
    lacks_memory_ = status.code() == StatusCode::kResourceExhausted;
    return IsPassing(status) ? LeftBy(status) : InternalError(status.message());
  };
  const Result<std::string> hash = WriteAdapter(folder(), learned, provenance, parts_.model);
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
  Tell("New fine-tuned model created", told);
  return OkStatus();
}

}  // namespace graft
