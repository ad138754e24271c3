#include "tuning/job_runner.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/thread_name.h"
#include "tensor/cuda_memory.h"
#include "tuning/job_at_work.h"

namespace graft {
namespace {

constexpr std::chrono::seconds kStoreRetry{1};
// A job that was left is begun again after so long, and twice as long each time.
constexpr std::chrono::seconds kRetryMin{1};
constexpr int kRetryDoublings = 6;

// What a client is told. Faults of this machine are the log's business, and so are its folders.
std::string MessageFor(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnimplemented:
      return status.message();
    default:
      return "the server failed to learn this; its log says why";
  }
}

// So that the first document does not wait for it. A job says what it lacks.
void WarmEncoder(ServedEncoder& encoder) {
  Status warmed;
  try {
    warmed = encoder.Warm();
  } catch (const std::bad_alloc& error) {
    warmed = ResourceExhaustedError(error.what());
  }
  if (warmed.ok()) return;
  LOG_WARN("the encoder is not ready for documents: {}; --learn-gib gives it more",
           warmed.message());
}

// For the log; a server without keys has one tenant, which has no name.
std::string OfTenant(const LearningJob& job) {
  return job.tenant.empty() ? "" : " of " + job.tenant;
}

}  // namespace

JobRunner::JobRunner(JobRunnerParts parts, JobRunnerSettings settings)
    : parts_(parts), settings_(std::move(settings)) {}

JobRunner::~JobRunner() { Stop(); }

void JobRunner::Start() {
  CHECK(!thread_.joinable()) << "started twice";
  thread_ = std::thread([this] { Loop(); });
}

void JobRunner::Stop() {
  parts_.jobs.Stop();
  if (thread_.joinable()) thread_.join();
}

void JobRunner::Loop() {
  NameThread("learning");
  UseDevice(parts_.stream.device);
  ServedEncoder* const encoder = parts_.encoder;
  if (encoder != nullptr) WarmEncoder(*encoder);
  while (std::optional<LearningJob> job = parts_.jobs.WaitForJob()) RunJob(std::move(*job));
  if (encoder != nullptr) encoder->Release();
}

void JobRunner::RunJob(LearningJob job) {
  LOG_INFO("fine-tuning job {}{} begins here", job.id, OfTenant(job));
  JobAtWork work(parts_, settings_, std::move(job));
  Status status;
  bool lacks_memory = false;
  try {
    status = work.Run();
    lacks_memory = work.lacks_memory();
  } catch (const std::bad_alloc& error) {
    status = Status(StatusCode::kAborted, std::string("out of memory: ") + error.what());
    lacks_memory = true;
  }
  if (status.code() == StatusCode::kAborted && lacks_memory && work.job().begins >= kJobBeginsMax) {
    LOG_ERROR("fine-tuning job {}: {}", work.job().id, status.message());
    status = ResourceExhaustedError(
        "memory ran out; lower batch_size, window_tokens or rank, or try again later");
  }
  if (status.code() == StatusCode::kAborted) {
    LeaveJob(work.job(), status.message(), lacks_memory);
    num_faults_ = work.made_way() ? 0 : num_faults_ + 1;
    if (num_faults_ > 0) {
      parts_.jobs.WaitForStop(kRetryMin * (1 << std::min(num_faults_ - 1, kRetryDoublings)));
    }
    return;
  }
  num_faults_ = 0;
  LearningJob ended = work.job();
  ended.finished_at = parts_.jobs.store().now();
  ended.estimated_finish = 0;
  bool is_settled = false;
  if (status.ok()) {
    ended.status = JobStatus::kSucceeded;
    is_settled = Settle(ended, "The job has successfully completed; the model is " + ended.adapter);
  } else if (status.code() == StatusCode::kCancelled) {
    ended.status = JobStatus::kCancelled;
    is_settled = Settle(ended, "The job was cancelled");
  } else {
    LOG_WARN("fine-tuning job {} failed: {}", ended.id, status.ToString());
    ended.status = JobStatus::kFailed;
    using Stage = JobAtWork::Stage;
    const bool is_files =
        work.stage() != Stage::kTraining && status.code() == StatusCode::kInvalidArgument;
    ended.error.code = is_files ? "invalid_training_file" : "training_failed";
    if (status.code() == StatusCode::kResourceExhausted) ended.error.code = "out_of_memory";
    if (is_files) {
      ended.error.param =
          work.stage() == Stage::kReading ? "training_file" : kMethodPath + FieldOf("keep_text");
    }
    ended.error.message = MessageFor(status);
    is_settled = Settle(ended, ended.error.message);
  }
  if (!is_settled) {
    // The job's next runner decides whether a name leads to what was learned.
    if (!ended.adapter.empty()) (void)parts_.catalog.Unload(ended.adapter, ended.tenant);
    LeaveJob(work.job(), "its end could not be written down", false);
    return;
  }
  RemoveCheckpoints(ended.id);
  std::error_code ignored;
  if (!status.ok()) std::filesystem::remove_all(work.folder(), ignored);
}

void JobRunner::LeaveJob(const LearningJob& job, const std::string& why, bool is_fault) {
  LOG_INFO("fine-tuning job {}{} is left: {}", job.id, OfTenant(job), why);
  parts_.jobs.store().Leave(job, is_fault);
}

// Those of all runners that had the job, and its texts.
void JobRunner::RemoveCheckpoints(const std::string& job) const {
  std::error_code ignored;
  std::vector<std::filesystem::path> files;
  std::filesystem::directory_iterator entry(settings_.checkpoints, ignored);
  for (; entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    if (entry->path().filename().string().starts_with(job)) files.push_back(entry->path());
  }
  for (const std::filesystem::path& file : files) std::filesystem::remove_all(file, ignored);
}

bool JobRunner::Settle(const LearningJob& job, const std::string& message) {
  LearningStore& store = parts_.jobs.store();
  JobEvent event{.message = message};
  if (job.status == JobStatus::kFailed) event.level = "error";
  for (;;) {
    const Status written = store.Finish(job, event);
    if (written.ok()) break;
    LOG_ERROR("fine-tuning job {}: {}", job.id, written.message());
    if (written.code() == StatusCode::kAborted) return false;
    // A job without its end on record is done again from its checkpoint.
    if (parts_.jobs.WaitForStop(kStoreRetry)) return false;
  }
  LOG_INFO("fine-tuning job {}{} {}", job.id, OfTenant(job), JobStatusName(job.status));
  return true;
}

}  // namespace graft
