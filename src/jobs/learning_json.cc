#include "jobs/learning_json.h"

#include "base/json.h"
#include "base/json_fields.h"

namespace graft {
namespace {

Result<Json> RecordOf(const std::string& text, const char* what) {
  Result<Json> json = ParseJson(text);
  if (json.ok() && json->is_object()) return json;
  return DataLossError(std::string("the record is not that of ") + what);
}

}  // namespace

std::string ToJson(const LearningFile& file) {
  return DumpJson({{"id", file.id},
                   {"tenant", file.tenant},
                   {"name", file.name},
                   {"purpose", file.purpose},
                   {"bytes", file.bytes},
                   {"created_at", file.created_at},
                   {"expires_at", file.expires_at}});
}

Result<LearningFile> LearningFileOf(const std::string& json) {
  ASSIGN_OR_RETURN(const Json fields, RecordOf(json, "a file"));
  LearningFile file;
  ReadField(fields, "id", &file.id);
  ReadField(fields, "tenant", &file.tenant);
  ReadField(fields, "name", &file.name);
  ReadField(fields, "purpose", &file.purpose);
  ReadField(fields, "bytes", &file.bytes);
  ReadField(fields, "created_at", &file.created_at);
  ReadField(fields, "expires_at", &file.expires_at);
  if (file.id.empty()) return DataLossError("the record of a file has no id");
  return file;
}

std::string ToJson(const LearningJob& job) {
  return DumpJson({{"id", job.id},
                   {"tenant", job.tenant},
                   {"base_model", job.base_model},
                   {"training_file", job.training_file},
                   {"suffix", job.suffix},
                   {"metadata", job.metadata},
                   {"seed", job.seed},
                   {"method", ToJson(job.method)},
                   {"created_at", job.created_at},
                   {"status", JobStatusName(job.status)},
                   {"started_at", job.started_at},
                   {"finished_at", job.finished_at},
                   {"estimated_finish", job.estimated_finish},
                   {"trained_tokens", job.trained_tokens},
                   {"error_code", job.error.code},
                   {"error_message", job.error.message},
                   {"error_param", job.error.param},
                   {"adapter", job.adapter},
                   {"hash", job.hash},
                   {"rank_max", job.rank_max},
                   {"num_virtual_tokens", job.num_virtual_tokens},
                   {"bytes", job.bytes},
                   {"base_hash", job.base_hash},
                   {"folder", job.folder}});
}

Result<LearningJob> LearningJobOf(const std::string& json) {
  ASSIGN_OR_RETURN(const Json fields, RecordOf(json, "a fine-tuning job"));
  LearningJob job;
  std::string method, status;
  ReadField(fields, "id", &job.id);
  ReadField(fields, "tenant", &job.tenant);
  ReadField(fields, "base_model", &job.base_model);
  ReadField(fields, "training_file", &job.training_file);
  ReadField(fields, "suffix", &job.suffix);
  ReadField(fields, "metadata", &job.metadata);
  ReadField(fields, "seed", &job.seed);
  ReadField(fields, "method", &method);
  job.method = DocumentMethodOf(method);
  ReadField(fields, "created_at", &job.created_at);
  ReadField(fields, "status", &status);
  job.status = JobStatusOf(status);
  ReadField(fields, "started_at", &job.started_at);
  ReadField(fields, "finished_at", &job.finished_at);
  ReadField(fields, "estimated_finish", &job.estimated_finish);
  ReadField(fields, "trained_tokens", &job.trained_tokens);
  ReadField(fields, "error_code", &job.error.code);
  ReadField(fields, "error_message", &job.error.message);
  ReadField(fields, "error_param", &job.error.param);
  ReadField(fields, "adapter", &job.adapter);
  ReadField(fields, "hash", &job.hash);
  ReadField(fields, "rank_max", &job.rank_max);
  ReadField(fields, "num_virtual_tokens", &job.num_virtual_tokens);
  ReadField(fields, "bytes", &job.bytes);
  ReadField(fields, "base_hash", &job.base_hash);
  ReadField(fields, "folder", &job.folder);
  if (job.id.empty()) return DataLossError("the record of a fine-tuning job has no id");
  return job;
}

std::string ToJson(const JobEvent& event) {
  return DumpJson({{"number", event.number},
                   {"created_at", event.created_at},
                   {"level", event.level},
                   {"message", event.message},
                   {"data", event.data}});
}

Result<JobEvent> JobEventOf(const std::string& json) {
  ASSIGN_OR_RETURN(const Json fields, RecordOf(json, "an event"));
  JobEvent event;
  ReadField(fields, "number", &event.number);
  ReadField(fields, "created_at", &event.created_at);
  ReadField(fields, "level", &event.level);
  ReadField(fields, "message", &event.message);
  ReadField(fields, "data", &event.data);
  if (event.number < 1) return DataLossError("the record of an event has no number");
  return event;
}

std::string ToJson(const JobCheckpoint& checkpoint, const std::string& file) {
  return DumpJson({{"step", checkpoint.step},
                   {"created_at", checkpoint.created_at},
                   {"loss", checkpoint.loss},
                   {"file", file}});
}

Result<JobCheckpoint> JobCheckpointOf(const std::string& json, std::string* file) {
  ASSIGN_OR_RETURN(const Json fields, RecordOf(json, "a checkpoint"));
  JobCheckpoint checkpoint;
  ReadField(fields, "step", &checkpoint.step);
  ReadField(fields, "created_at", &checkpoint.created_at);
  ReadField(fields, "loss", &checkpoint.loss);
  if (file != nullptr) ReadField(fields, "file", file);
  return checkpoint;
}

}  // namespace graft
