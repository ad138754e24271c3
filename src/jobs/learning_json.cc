#include "jobs/learning_json.h"

#include "base/json.h"

namespace graft {
namespace {

// Fields of the wrong type count as absent: a later version may have changed them.
class Fields {
 public:
  static Result<Fields> Of(const std::string& text, const char* what) {
    Result<Json> json = ParseJson(text);
    if (json.ok() && json->is_object()) return Fields(std::move(*json));
    return DataLossError(std::string("the record is not that of ") + what);
  }

  void Take(const char* name, std::string* out) const {
    const auto it = json_.find(name);
    if (it != json_.end() && it->is_string()) it->get_to(*out);
  }
  template <typename Integer>
  void TakeInteger(const char* name, Integer* out) const {
    const auto it = json_.find(name);
    if (it != json_.end() && it->is_number_integer()) it->get_to(*out);
  }
  void TakeNumber(const char* name, double* out) const {
    const auto it = json_.find(name);
    if (it != json_.end() && it->is_number()) it->get_to(*out);
  }

 private:
  explicit Fields(Json json) : json_(std::move(json)) {}

  Json json_;
};

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
  ASSIGN_OR_RETURN(const Fields fields, Fields::Of(json, "a file"));
  LearningFile file;
  fields.Take("id", &file.id);
  fields.Take("tenant", &file.tenant);
  fields.Take("name", &file.name);
  fields.Take("purpose", &file.purpose);
  fields.TakeInteger("bytes", &file.bytes);
  fields.TakeInteger("created_at", &file.created_at);
  fields.TakeInteger("expires_at", &file.expires_at);
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
  ASSIGN_OR_RETURN(const Fields fields, Fields::Of(json, "a fine-tuning job"));
  LearningJob job;
  std::string method, status;
  fields.Take("id", &job.id);
  fields.Take("tenant", &job.tenant);
  fields.Take("base_model", &job.base_model);
  fields.Take("training_file", &job.training_file);
  fields.Take("suffix", &job.suffix);
  fields.Take("metadata", &job.metadata);
  fields.TakeInteger("seed", &job.seed);
  fields.Take("method", &method);
  job.method = DocumentMethodOf(method);
  fields.TakeInteger("created_at", &job.created_at);
  fields.Take("status", &status);
  job.status = JobStatusOf(status);
  fields.TakeInteger("started_at", &job.started_at);
  fields.TakeInteger("finished_at", &job.finished_at);
  fields.TakeInteger("estimated_finish", &job.estimated_finish);
  fields.TakeInteger("trained_tokens", &job.trained_tokens);
  fields.Take("error_code", &job.error.code);
  fields.Take("error_message", &job.error.message);
  fields.Take("error_param", &job.error.param);
  fields.Take("adapter", &job.adapter);
  fields.Take("hash", &job.hash);
  fields.TakeInteger("rank_max", &job.rank_max);
  fields.TakeInteger("num_virtual_tokens", &job.num_virtual_tokens);
  fields.TakeInteger("bytes", &job.bytes);
  fields.Take("base_hash", &job.base_hash);
  fields.Take("folder", &job.folder);
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
  ASSIGN_OR_RETURN(const Fields fields, Fields::Of(json, "an event"));
  JobEvent event;
  fields.TakeInteger("number", &event.number);
  fields.TakeInteger("created_at", &event.created_at);
  fields.Take("level", &event.level);
  fields.Take("message", &event.message);
  fields.Take("data", &event.data);
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
  ASSIGN_OR_RETURN(const Fields fields, Fields::Of(json, "a checkpoint"));
  JobCheckpoint checkpoint;
  fields.TakeInteger("step", &checkpoint.step);
  fields.TakeInteger("created_at", &checkpoint.created_at);
  fields.TakeNumber("loss", &checkpoint.loss);
  if (file != nullptr) fields.Take("file", file);
  return checkpoint;
}

}  // namespace graft
