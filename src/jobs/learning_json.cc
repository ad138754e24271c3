#include "jobs/learning_json.h"

#include "base/check.h"
#include "jobs/learning_fields.h"

#include <utility>

namespace graft {

void WriteField(Json* json, const char* field, JobStatus value) {
  (*json)[field] = JobStatusName(value);
}

void WriteField(Json* json, const char* field, const DocumentMethod& value) {
  (*json)[field] = ToJson(value);
}

void ReadField(const Json& json, const char* field, JobStatus* out) {
  std::string word;
  ReadField(json, field, &word);
  *out = JobStatusOf(word);
}

void ReadField(const Json& json, const char* field, DocumentMethod* out) {
  std::string text;
  ReadField(json, field, &text);
  *out = DocumentMethodOf(text);
}

std::string ToJson(const LearningFile& file) { return DumpJson(FieldsOf(file)); }
std::string ToJson(const LearningJob& job) { return DumpJson(FieldsOf(job)); }
std::string ToJson(const JobEvent& event) { return DumpJson(FieldsOf(event)); }

std::string ToJson(const JobCheckpoint& checkpoint, const std::string& file) {
  Json json = FieldsOf(checkpoint);
  json["file"] = file;
  return DumpJson(json);
}

Result<LearningFile> LearningFileOf(const std::string& json) {
  return RecordOf<LearningFile>(json, "a file", {{"id", &LearningFile::id}});
}

Result<LearningJob> LearningJobOf(const std::string& json) {
  return RecordOf<LearningJob>(json, "a fine-tuning job", {{"id", &LearningJob::id}});
}

Result<JobEvent> JobEventOf(const std::string& json) {
  ASSIGN_OR_RETURN(const JobEvent event, RecordOf<JobEvent>(json, "an event"));
  if (event.number < 1) return MissingField("an event", "number");
  return event;
}

Result<JobCheckpoint> JobCheckpointOf(const std::string& json, std::string* file) {
  ASSIGN_OR_RETURN(const Json fields, ParseRecord(json, "a checkpoint"));
  JobCheckpoint checkpoint;
  ReadFields(fields, &checkpoint);
  if (file != nullptr) ReadField(fields, "file", file);
  return checkpoint;
}

namespace {

constexpr std::pair<JobStatus, const char*> kNames[] = {
    {JobStatus::kQueued, "queued"},   {JobStatus::kValidating, "validating_files"},
    {JobStatus::kRunning, "running"}, {JobStatus::kSucceeded, "succeeded"},
    {JobStatus::kFailed, "failed"},   {JobStatus::kCancelled, "cancelled"}};

}  // namespace

const char* JobStatusName(JobStatus status) {
  for (const auto& [one, name] : kNames) {
    if (one == status) return name;
  }
  CHECK(false) << "no such status: " << static_cast<int>(status);
  return "";
}

JobStatus JobStatusOf(const std::string& name) {
  for (const auto& [status, one] : kNames) {
    if (name == one) return status;
  }
  return JobStatus::kFailed;  // of another version: nothing is to be done about it
}

}  // namespace graft
