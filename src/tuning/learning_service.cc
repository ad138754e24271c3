#include "tuning/learning_service.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "learn/trainable.h"
#include "learn/training_device.h"
#include "tuning/recipe.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr double kShareMax = 0.9;
// How often a runner looks for jobs of its cluster.
constexpr std::chrono::milliseconds kLook{1000};

// Those of one document; the default is the first.
std::vector<std::string> LearnerNames() {
  std::vector<std::string> names;
  for (const char* const name : kLearnerNames) {
    if (name != std::string(WordOf(LearnerKind::kTask))) names.emplace_back(name);
  }
  return names;
}

std::vector<Option> TrainingRows(LearningOptions& options) {
  return {{"learn-share", Number(options.share, Between(0.0, kShareMax)),
           "of the time that training may take while requests run; without requests it takes all. "
           "0: no jobs"},
          {"learn-gib", Number(options.gib, Above(0.0)), "GiB of the device's memory for training"},
          {"learn-encoder", Text(options.encoder),
           "folder of an encoder that graft learn --corpus has taught: it makes adapters for jobs "
           "that ask for the learner encoder, or is where their adapters begin",
           "no such jobs"},
          {"learn-checkpoint-seconds", Number(options.checkpoint_seconds, Between(0, 1 << 20)),
           "how often a job's state is written, from which it goes on after a kill; 0: at every "
           "batch"},
          {"learn-turn-seconds", Number(options.turn_seconds, AtLeast(1)),
           "how long a job learns while another tenant's waits; then they take turns"}};
}

Option JobTokensRow(LearningLimits& limits) {
  return {"learn-job-tokens-max", Number(limits.job_tokens_max, AtLeast(1)),
          "tokens that a job learns from, over all of its passes"};
}

std::vector<Option> LimitRows(LearningLimits& limits) {
  return {JobTokensRow(limits),
          {"learn-jobs-max", Number(limits.tenant_jobs_max, AtLeast(1)),
           "jobs of a tenant that are not finished"},
          {"learn-adapters-max", Number(limits.tenant_adapters_max, AtLeast(1)),
           "learned models of a tenant"},
          {"learn-adapters-mib", NumberIn(kMibInBytes, limits.tenant_adapter_bytes_max, AtLeast(1)),
           "MiB of a tenant's learned models together; above them no job is begun"},
          {"files-mib", NumberIn(kMibInBytes, limits.tenant_file_bytes_max, AtLeast(1)),
           "MiB of a tenant's files together"},
          {"files-hours", NumberIn(kHourInSeconds, limits.file_seconds, AtLeast(0)),
           "how long a file is kept where its owner does not say; 0: until it is deleted"}};
}

}  // namespace

OptionGroup LearningOptionGroup(LearningOptions& options) {
  std::vector<Option> rows = {
      {"learn-dir", Text(options.folder),
       "folder of files, fine-tuning jobs and what they learned, which one server has for "
       "itself (docs/learning.md)",
       "none of them"}};
  for (Option& row : TrainingRows(options)) rows.push_back(std::move(row));
  for (Option& row : LimitRows(options.limits)) rows.push_back(std::move(row));
  return {"Learning", std::move(rows)};
}

std::vector<Option> LearningRunnerRows(LearningOptions& options) {
  std::vector<Option> rows = {
      {"learn-dir", Text(options.folder),
       "folder of files, checkpoints and what was learned, which all frontends and the runners "
       "that learn share (docs/learning.md)",
       "none of them"}};
  for (Option& row : TrainingRows(options)) rows.push_back(std::move(row));
  rows.push_back(JobTokensRow(options.limits));
  return rows;
}

std::vector<Option> LearningFrontendRows(LearningOptions& options) {
  std::vector<Option> rows = {
      {"learn-dir", Text(options.folder),
       "folder of files and what was learned, which all frontends and the runners that learn "
       "share (docs/learning.md)",
       "no files and no fine-tuning jobs"}};
  for (Option& row : LimitRows(options.limits)) rows.push_back(std::move(row));
  return rows;
}

LearningSetup LearningSetupOf(const LearningOptions& options, const std::string& base_model) {
  LearningSetup setup;
  setup.limits = options.limits;
  setup.base_model = base_model;
  setup.learners = LearnerNames();
  return setup;
}

LearningService::LearningService(const LearningOptions& options, std::string folder)
    : options_(options), folder_(std::move(folder)) {}

LearningService::~LearningService() {
  Stop();
  if (lock_fd_ >= 0) close(lock_fd_);
}

Result<std::unique_ptr<LearningService>> LearningService::Create(const LearningOptions& options,
                                                                 RuntimeOptions* served,
                                                                 bool shared) {
  if (options.folder.empty()) {
    if (options.share == 0.0 && options.encoder.empty()) return std::unique_ptr<LearningService>();
    return InvalidArgumentError(
        "--learn-share and --learn-encoder: where is what is learned to be? --learn-dir DIR");
  }
  if (!options.encoder.empty()) {
    if (options.share == 0.0) {
      return InvalidArgumentError("--learn-encoder: for jobs, which take --learn-share");
    }
    const Status encoder = CheckEncoderOf(options.encoder, served->model);
    if (!encoder.ok()) return encoder.WithContext("--learn-encoder");
    ASSIGN_OR_RETURN(served->learn_encoder_bytes, EncoderBytes(options.encoder));
  }
  std::error_code error;
  for (const char* sub : {"/adapters", "/checkpoints"}) {
    fs::create_directories(options.folder + sub, error);
    if (error) {
      return SystemError(error.value(), "--learn-dir: cannot make " + options.folder + sub);
    }
  }
  const std::string folder = fs::canonical(options.folder, error).string();
  if (error) return SystemError(error.value(), "--learn-dir " + options.folder);
  std::unique_ptr<LearningService> service(new LearningService(options, folder));
  if (!shared) {
    if (FileExists(folder + "/" + kClusterFolderFile)) {
      return FailedPreconditionError("--learn-dir " + folder +
                                     ": a cluster's (graft frontend); give the server its own");
    }
    RETURN_IF_ERROR(service->Lock());
    // Documents and what was learned of them are all tenants', and no other user's.
    for (const char* sub : {"/adapters", "/checkpoints"}) {
      fs::permissions(folder + sub, fs::perms::owner_all, error);
      if (error) LOG_WARN("other users may read {}: {}", folder + sub, error.message());
    }
    ASSIGN_OR_RETURN(service->store_, SqliteLearningStore::Open(folder + "/" + kServerFolderFile));
  }
  service->model_folder_ = served->model;
  served->learned = service->adapters();
  served->learn_gib = options.share > 0.0 ? options.gib : 0.0;
  return service;
}

Status LearningService::Lock() {
  const std::string path = folder_ + "/lock";
  lock_fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd_ < 0) return SystemError(errno, "--learn-dir: cannot open " + path);
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) return OkStatus();
  return FailedPreconditionError("--learn-dir " + folder_ +
                                 ": another server has it; give each its own");
}

void LearningService::SetModel(LoadedModel& model) {
  model_ = &model;
  if (options_.share > 0.0 && CheckTrains().ok()) MakeTurns(model);
}

void LearningService::MakeTurns(LoadedModel& model) {
  const auto on_piece = [this](int64_t ns) { piece_seconds_->Observe(NsToSeconds(ns)); };
  if (model.device.is_cpu()) {
    turns_ = std::make_unique<Turns>(options_.share, SteadyClock::Get(), on_piece);
    model.turns = turns_.get();
    return;
  }
  threads_ = std::make_unique<ThreadPool>(1);
  stream_ = std::make_unique<OwnedStream>(model.device, threads_.get(), /*yields=*/true);
  marks_ = std::make_unique<StreamTurns>(model.stream, stream_->get());
  device_turns_ =
      std::make_unique<DeviceTurns>(options_.share, *marks_, SteadyClock::Get(), on_piece);
  model.device_turns = device_turns_.get();
}

Status LearningService::CheckTrains() const {
  if (options_.share == 0.0) {
    return FailedPreconditionError(
        "this server serves what was learned and learns nothing more: start it with --learn-share");
  }
  if (model_->shard.num_ranks > 1) {
    return UnimplementedError(
        "training beside the serving does not go with --tensor-parallel so far: make the adapter "
        "by graft learn, or serve with --tensor-parallel 1");
  }
  RETURN_IF_ERROR(CheckTrainableWeights(model_->weights.types));
  if (model_->device.is_cpu()) return CheckTrainable(model_->device);
  return CheckTrainableOnGpu(model_->config, model_->weights.types.operands, model_->device);
}

Status LearningService::CheckEncodes() const {
  return options_.encoder.empty() ? HasNoEncoder() : OkStatus();
}

Status LearningService::OpenServedEncoder(const Tokenizer& tokenizer) {
  if (options_.encoder.empty() || !CheckTrains().ok()) return OkStatus();
  Result<KnownEncoder> known =
      OpenEncoder(options_.encoder, model_folder_, model_->config, tokenizer);
  if (!known.ok()) return known.status().WithContext("--learn-encoder");
  encoder_ =
      std::make_unique<ServedEncoder>(*std::move(known), *model_, LearningStream(),
                                      GibToBytes(options_.gib), turns_.get(), device_turns_.get());
  return OkStatus();
}

Status LearningService::Start(Runtime& runtime, const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(model_folder_));
  RETURN_IF_ERROR(OpenServedEncoder(tokenizer));
  LearningSetup setup = LearningSetupOf(options_, model_->name);
  setup.trains = [why = CheckTrains()] { return why; };
  setup.encodes = [why = CheckEncodes()] { return why; };
  setup.remove_adapter = [this, &runtime](const LearningJob& job) { return Remove(runtime, job); };
  jobs_ = std::make_unique<LearningJobs>(*store_, std::move(setup));
  RETURN_IF_ERROR(ListLearned(runtime, base));
  StartThread(runtime, tokenizer, base);
  return OkStatus();
}

// The cluster sees to it that its runners have one base model, whatever its name.
Status LearningService::StartShared(Runtime& runtime, const Tokenizer& tokenizer,
                                    LearningStore& store) {
  ASSIGN_OR_RETURN(const BaseIdentity base, IdentifyBase(model_folder_));
  RETURN_IF_ERROR(OpenServedEncoder(tokenizer));
  LearningSetup setup = LearningSetupOf(options_, "");
  setup.trains = [why = CheckTrains()] { return why; };
  setup.look = kLook;
  jobs_ = std::make_unique<LearningJobs>(store, std::move(setup));
  StartThread(runtime, tokenizer, base);
  return OkStatus();
}

void LearningService::StartThread(Runtime& runtime, const Tokenizer& tokenizer,
                                  const BaseIdentity& base) {
  piece_seconds_ = &runtime.metrics().Histogram(
      "graft_learn_micro_step_seconds",
      "How long training held the kernels' threads, or the GPU, at once: a layer's forward or "
      "backward, mostly",
      {0.0003, 0.001, 0.0015, 0.002, 0.0025, 0.003, 0.004, 0.006, 0.01, 0.03, 0.1, 0.3, 1.0});
  const Status trains = jobs_->trains();
  if (!trains.ok()) {
    LOG_INFO("fine-tuning jobs are refused: {}", trains.message());
    return;
  }
  runner_ = std::make_unique<JobRunner>(JobRunnerParts{.jobs = *jobs_,
                                                       .model = *model_,
                                                       .tokenizer = tokenizer,
                                                       .catalog = runtime.catalog(),
                                                       .generator = runtime.engine(),
                                                       .stream = LearningStream(),
                                                       .turns = turns_.get(),
                                                       .device_turns = device_turns_.get(),
                                                       .encoder = encoder_.get()},
                                        JobRunnerSettings{.model_dir = model_folder_,
                                                          .base = base,
                                                          .adapters = adapters(),
                                                          .checkpoints = folder_ + "/checkpoints",
                                                          .options = options_});
  runner_->Start();
}

Status LearningService::ListLearned(Runtime& runtime, const BaseIdentity& base) {
  ASSIGN_OR_RETURN(const std::vector<LearningJob> learned, store_->ListLearned());
  int32_t num_listed = 0;
  for (const LearningJob& job : learned) {
    Status listed = FailedPreconditionError("it was learned on another base model");
    if (job.base_hash == base.text_hash + base.weights_hash) {
      listed = runtime.catalog().ListOwned({.name = job.adapter,
                                            .hash = job.hash,
                                            .path = adapters() + "/" + job.id,
                                            .base_model = job.base_model,
                                            .rank_max = job.rank_max,
                                            .num_virtual_tokens = job.num_virtual_tokens,
                                            .bytes = job.bytes,
                                            .tenant = job.tenant,
                                            .owner = job.tenant});
    }
    if (listed.ok()) {
      ++num_listed;
    } else {
      LOG_WARN("learned model {} of {} is not served: {}", job.adapter, job.tenant,
               listed.message());
    }
  }
  LOG_INFO("learned models: {} listed, {} refused", num_listed,
           static_cast<int32_t>(learned.size()) - num_listed);
  return OkStatus();
}

Status LearningService::Remove(Runtime& runtime, const LearningJob& job) const {
  const Status unloaded = runtime.catalog().Unload(job.adapter, job.tenant);
  if (!unloaded.ok() && unloaded.code() != StatusCode::kNotFound) return unloaded;
  std::error_code error;
  fs::remove_all(adapters() + "/" + job.id, error);
  if (error) LOG_WARN("the folder of learned model {}: {}", job.adapter, error.message());
  return OkStatus();
}

void LearningService::Stop() {
  if (runner_ != nullptr) runner_->Stop();
}

}  // namespace graft
