// The fields of the records of learning, each named once. The names are the keys of a cluster's
// records in etcd (learning_json.h) and the columns of a server's database
// (sqlite_learning_rows.h). Any thread.
#pragma once

#include "base/record_fields.h"
#include "jobs/learning_records.h"

namespace graft {

// A status as its word, a method as its JSON in a text.
void WriteField(Json* json, const char* field, JobStatus value);
void WriteField(Json* json, const char* field, const DocumentMethod& value);
void ReadField(const Json& json, const char* field, JobStatus* out);
void ReadField(const Json& json, const char* field, DocumentMethod* out);

template <MaybeConst<LearningFile> File, typename Visit>
void VisitFields(File& file, const Visit& visit) {
  visit("id", file.id);
  visit("tenant", file.tenant);
  visit("name", file.name);
  visit("purpose", file.purpose);
  visit("bytes", file.bytes);
  visit("created_at", file.created_at);
  visit("expires_at", file.expires_at);
}

// What a job is asked for by, which does not change.
template <MaybeConst<LearningJob> Job, typename Visit>
void VisitOrder(Job& job, const Visit& visit) {
  visit("id", job.id);
  visit("tenant", job.tenant);
  visit("base_model", job.base_model);
  visit("training_file", job.training_file);
  visit("suffix", job.suffix);
  visit("metadata", job.metadata);
  visit("seed", job.seed);
  visit("method", job.method);
  visit("created_at", job.created_at);
}

// What becomes of it, but for is_cancelled, which another thread writes.
template <MaybeConst<LearningJob> Job, typename Visit>
void VisitProgress(Job& job, const Visit& visit) {
  visit("status", job.status);
  visit("started_at", job.started_at);
  visit("finished_at", job.finished_at);
  visit("estimated_finish", job.estimated_finish);
  visit("trained_tokens", job.trained_tokens);
  visit("error_code", job.error.code);
  visit("error_message", job.error.message);
  visit("error_param", job.error.param);
  visit("adapter", job.adapter);
  visit("hash", job.hash);
  visit("rank_max", job.rank_max);
  visit("num_virtual_tokens", job.num_virtual_tokens);
  visit("bytes", job.bytes);
  visit("base_hash", job.base_hash);
}

// The record in etcd. That the job is cancelled is a key of its own there.
template <MaybeConst<LearningJob> Job, typename Visit>
void VisitFields(Job& job, const Visit& visit) {
  VisitOrder(job, visit);
  VisitProgress(job, visit);
  visit("folder", job.folder);
}

template <MaybeConst<JobEvent> Event, typename Visit>
void VisitFields(Event& event, const Visit& visit) {
  visit("number", event.number);
  visit("created_at", event.created_at);
  visit("level", event.level);
  visit("message", event.message);
  visit("data", event.data);
}

template <MaybeConst<JobCheckpoint> Checkpoint, typename Visit>
void VisitFields(Checkpoint& checkpoint, const Visit& visit) {
  visit("step", checkpoint.step);
  visit("created_at", checkpoint.created_at);
  visit("loss", checkpoint.loss);
}

}  // namespace graft
