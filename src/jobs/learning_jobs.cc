#include "jobs/learning_jobs.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "document/document.h"
#include "request/adapter_name.h"

namespace graft {
namespace {

// A store that failed is asked again after so long.
constexpr std::chrono::seconds kRetry{5};

// Reading a page takes up to twelve times its bytes of memory for a moment, which no limit counts.
// So pages of more bytes are read one at a time; smaller ones wait for none.
constexpr size_t kReadAloneBytes = 256 << 10;

// Whether the file's bytes are what is learned, as Markdown's are, too.
bool IsPlainText(const std::string& name) {
  return name.ends_with(".txt") || name.ends_with(".md");
}

}  // namespace

std::string LearnedName(const LearningJob& job) {
  constexpr size_t kBaseBytesMax = 80;
  const std::string digits = job.id.substr(job.id.size() - std::min<size_t>(job.id.size(), 12));
  return "ft:" + AdapterNameFrom(job.base_model.substr(0, kBaseBytesMax)) + ":" +
         (job.suffix.empty() ? "" : job.suffix + ":") + digits;
}

LearningJobs::LearningJobs(LearningStore& store, LearningSetup setup)
    : store_(store), setup_(std::move(setup)) {}

Result<LearningFile> LearningJobs::Upload(const std::string& tenant, const std::string& name,
                                          const std::string& purpose, const std::string& content,
                                          int64_t seconds) {
  RETURN_IF_ERROR(CheckContent(name, content));
  LearningFile file;
  file.id = NewLearningId("file-");
  file.tenant = tenant;
  file.name = name;
  file.purpose = purpose;
  file.bytes = static_cast<int64_t>(content.size());
  file.created_at = store_.now();
  const int64_t kept = seconds > 0 ? seconds : setup_.limits.file_seconds;
  if (kept > 0) file.expires_at = file.created_at + kept;
  RETURN_IF_ERROR(store_.AddFile(file, content, setup_.limits.tenant_file_bytes_max));
  return file;
}

Status LearningJobs::CheckContent(const std::string& name, const std::string& content) {
  std::unique_lock alone(reading_, std::defer_lock);
  if (content.size() > kReadAloneBytes) alone.lock();
  return CheckDocument(content, name);
}

Result<LearningJob> LearningJobs::Create(LearningJob order) {
  RETURN_IF_ERROR(trains());
  const bool is_encoded = order.method.learner == "encoder" || order.method.begin == "encoder";
  if (is_encoded && setup_.encodes) RETURN_IF_ERROR(setup_.encodes());
  order.id = NewLearningId("ftjob-");
  order.base_model = setup_.base_model;
  order.created_at = store_.now();
  ASSIGN_OR_RETURN(const LearningFile file, store_.FindFile(order.tenant, order.training_file));
  RETURN_IF_ERROR(CheckLength(order, file));
  RETURN_IF_ERROR(CheckKept(order));
  RETURN_IF_ERROR(
      store_.AddJob(order, {.unfinished_max = setup_.limits.tenant_jobs_max,
                            .adapters_max = setup_.limits.tenant_adapters_max,
                            .adapter_bytes_max = setup_.limits.tenant_adapter_bytes_max}));
  Ring();
  return store_.FindJob(order.tenant, order.id);
}

Result<LearningJob> LearningJobs::Cancel(const std::string& tenant, const std::string& id) {
  ASSIGN_OR_RETURN(LearningJob job, store_.Cancel(tenant, id));
  // On a server that does not train no thread would end it.
  if (setup_.is_own && !IsFinished(job.status) && !trains().ok()) {
    job.status = JobStatus::kCancelled;
    job.finished_at = store_.now();
    RETURN_IF_ERROR(store_.Update(job));
  }
  return job;
}

Result<LearningJob> LearningJobs::CancelAnybodys(const std::string& id) {
  ASSIGN_OR_RETURN(const std::string tenant, store_.TenantOf(id));
  return Cancel(tenant, id);
}

// The job itself looks once more, at what its text comes to in tokens. Here a token is as long as
// none is on average, and of markup nothing is known.
Status LearningJobs::CheckLength(const LearningJob& order, const LearningFile& file) const {
  constexpr int64_t kTokenBytes = 8;
  const DocumentMethod& method = order.method;
  if (!IsPlainText(file.name)) return OkStatus();
  const int64_t tokens = file.bytes / kTokenBytes;
  const int64_t windows = tokens / std::max(1, method.window_tokens);
  // Each question has an answer, of one token at least.
  const bool writes = method.learner != "next-token" && method.learner != "encoder";
  const bool asks_all = writes && method.steps == 0;  // else as many as these visit
  const int64_t passes = method.steps > 0 ? 1 : std::max(1, method.passes);
  return CheckJobLength(tokens + (asks_all ? windows * method.questions : 0), passes,
                        setup_.limits.job_tokens_max);
}

Status LearningJobs::CheckKept(const LearningJob& order) {
  int64_t bytes = 0;
  for (const std::string& id : order.method.keep_text) {
    ASSIGN_OR_RETURN(const LearningFile file, store_.FindFile(order.tenant, id));
    bytes += file.bytes;
  }
  if (bytes <= kDocumentBytesMax) return OkStatus();
  return InvalidArgumentError("the files of keep_text have " + std::to_string(bytes) +
                              " bytes, and " + std::to_string(kDocumentBytesMax) +
                              " together are read at most");
}

Status LearningJobs::DeleteAdapter(const std::string& tenant, const std::string& name) {
  ASSIGN_OR_RETURN(const LearningJob job, store_.FindLearned(tenant, name));
  // First what makes it come back at the next start: after a kill in between its folder is left.
  RETURN_IF_ERROR(store_.ForgetAdapter(job));
  return setup_.remove_adapter(job);
}

std::optional<LearningJob> LearningJobs::WaitForJob() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto is_rung = [this] { return has_news_ || is_stopping_; };
    if (setup_.look.count() > 0) {
      rung_.wait_for(lock, setup_.look, is_rung);
    } else {
      rung_.wait(lock, is_rung);
    }
    if (is_stopping_) return std::nullopt;
    has_news_ = false;
    lock.unlock();
    Result<std::optional<LearningJob>> job = store_.NextJob();
    lock.lock();
    if (job.ok() && !job->has_value()) continue;
    has_news_ = true;  // there may be another one behind it
    if (job.ok()) return std::move(*job);
    LOG_ERROR("{}", job.status().message());
    rung_.wait_for(lock, kRetry, [this] { return is_stopping_; });
  }
}

void LearningJobs::Ring() {
  std::lock_guard lock(mutex_);
  has_news_ = true;
  rung_.notify_all();
}

void LearningJobs::Stop() {
  std::lock_guard lock(mutex_);
  is_stopping_ = true;
  rung_.notify_all();
}

bool LearningJobs::WaitForStop(std::chrono::seconds time) {
  std::unique_lock lock(mutex_);
  return rung_.wait_for(lock, time, [this] { return is_stopping_; });
}

bool LearningJobs::is_stopping() {
  std::lock_guard lock(mutex_);
  return is_stopping_;
}

}  // namespace graft
