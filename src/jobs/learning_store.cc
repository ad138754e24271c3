#include "jobs/learning_store.h"

#include "base/random.h"

namespace graft {
namespace {

constexpr size_t kIdBytesShown = 200;

}  // namespace

LearningStore::~LearningStore() = default;

std::string NewLearningId(const char* prefix) { return prefix + RandomHex(2).substr(0, 24); }

std::string EventId(const std::string& job, int64_t number) {
  return "ftevent-" + job + "-" + std::to_string(number);
}
std::string CheckpointId(const std::string& job, int64_t step) {
  return "ftckpt-" + job + "-" + std::to_string(step);
}

int64_t NumberOfId(const std::string& id) {
  const size_t dash = id.rfind('-');
  int64_t number = 0;
  for (size_t i = dash + 1; dash != std::string::npos && i < id.size(); ++i) {
    const char c = id[i];
    if (c < '0' || c > '9' || number > (int64_t{1} << 50)) return 0;
    number = number * 10 + (c - '0');
  }
  return number;
}

std::vector<std::string> FilesOf(const LearningJob& job) {
  std::vector<std::string> files = {job.training_file};
  files.insert(files.end(), job.method.keep_text.begin(), job.method.keep_text.end());
  return files;
}

Status NoSuchFile(const std::string& id) {
  return NotFoundError("there is no file '" + id.substr(0, kIdBytesShown) + "'");
}
Status NoSuchJob(const std::string& id) {
  return NotFoundError("there is no fine-tuning job '" + id.substr(0, kIdBytesShown) + "'");
}
Status NothingAfter(const std::string& id) {
  return NotFoundError("'after': there is nothing of the id '" + id.substr(0, kIdBytesShown) + "'");
}
Status NoSuchLearnedModel(const std::string& name) {
  return NotFoundError("there is no learned model '" + name.substr(0, kIdBytesShown) + "'");
}
Status FileIsNeeded(const std::string& job) {
  return FailedPreconditionError("the fine-tuning job '" + job +
                                 "' needs this file; cancel it first");
}
Status JobIsFinished(const LearningJob& job) {
  return FailedPreconditionError("the fine-tuning job '" + job.id +
                                 "' is finished: " + JobStatusName(job.status));
}

Status CheckFileRoom(size_t num_files, int64_t bytes, int64_t more, int64_t tenant_bytes_max) {
  if (num_files >= kTenantFilesMax) {
    return ResourceExhaustedError("you have " + std::to_string(num_files) +
                                  " files, as many as a tenant may; delete some");
  }
  if (bytes + more <= tenant_bytes_max) return OkStatus();
  return ResourceExhaustedError("your files have " + std::to_string(bytes) + " bytes, and " +
                                std::to_string(more) + " more are above the " +
                                std::to_string(tenant_bytes_max) +
                                " that a tenant may store; delete some");
}

Status CheckJobRoom(const JobRoom& room, const JobLimits& limits) {
  if (room.unfinished >= limits.unfinished_max) {
    return ResourceExhaustedError("you have " + std::to_string(room.unfinished) +
                                  " fine-tuning jobs that are not finished, as many as a tenant "
                                  "may; wait for one, or cancel it");
  }
  if (room.adapter_bytes >= limits.adapter_bytes_max) {
    return ResourceExhaustedError("your learned models have " + std::to_string(room.adapter_bytes) +
                                  " bytes; a tenant may have " +
                                  std::to_string(limits.adapter_bytes_max) +
                                  ": delete one (DELETE /v1/models/NAME)");
  }
  if (room.adapters + room.unfinished < limits.adapters_max) return OkStatus();
  return ResourceExhaustedError("you have " + std::to_string(room.adapters) +
                                " learned models; a tenant may have " +
                                std::to_string(limits.adapters_max) +
                                ", those that are being learned counted: delete one "
                                "(DELETE /v1/models/NAME)");
}

Status CheckJobLength(int64_t tokens, int64_t passes, int64_t tokens_max) {
  if (passes == 0 || tokens <= tokens_max / passes) return OkStatus();
  return InvalidArgumentError(
      "the job would learn from " + std::to_string(tokens) + " tokens " + std::to_string(passes) +
      " times, and a job may learn from " + std::to_string(tokens_max) +
      " in all: lower n_epochs, steps, questions, outputs or output_tokens, or "
      "learn the document in parts");
}

}  // namespace graft
