#include "openai/learning/learning_answers.h"

#include <type_traits>

#include "jobs/learning_store.h"

namespace graft {
namespace {

Json TimeOrNull(int64_t seconds) { return seconds == 0 ? Json() : Json(seconds); }
Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

// What is the learner's own has no number here.
Json HyperparametersJson(const DocumentMethod& method) {
  Json json = Json::object();
  VisitMethod(method, [&json](const MethodRow& row, const auto& value) {
    if (*row.field == '\0') return;
    json[row.field] = value;
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      if (row.is_own(static_cast<double>(value))) json[row.field] = "auto";
    }
  });
  return json;
}

Json ObjectOf(const std::string& text) {
  if (text.empty()) return {};
  const Result<Json> json = ParseJson(text);
  return json.ok() ? *json : Json();
}

}  // namespace

Json FileJson(const LearningFile& file) {
  return {{"id", file.id},
          {"object", "file"},
          {"bytes", file.bytes},
          {"created_at", file.created_at},
          {"expires_at", TimeOrNull(file.expires_at)},
          {"filename", file.name},
          {"purpose", file.purpose},
          {"status", "processed"},
          {"status_details", nullptr}};
}

Json JobJson(const LearningJob& job) {
  const Json hyperparameters = HyperparametersJson(job.method);
  Json error;
  if (!job.error.message.empty()) {
    error = {{"code", job.error.code},
             {"message", job.error.message},
             {"param", TextOrNull(job.error.param)}};
  }
  return {
      {"id", job.id},
      {"object", "fine_tuning.job"},
      {"created_at", job.created_at},
      {"error", std::move(error)},
      {"estimated_finish", IsFinished(job.status) ? Json() : TimeOrNull(job.estimated_finish)},
      {"fine_tuned_model", TextOrNull(job.adapter)},
      {"finished_at", TimeOrNull(job.finished_at)},
      {"hyperparameters",
       {{"n_epochs", hyperparameters["n_epochs"]},
        {"batch_size", hyperparameters["batch_size"]},
        {"learning_rate_multiplier", hyperparameters["learning_rate_multiplier"]}}},
      {"integrations", Json::array()},
      {"metadata", ObjectOf(job.metadata)},
      {"method", {{"type", "document"}, {"document", {{"hyperparameters", hyperparameters}}}}},
      {"model", job.base_model},
      {"organization_id", job.tenant},
      {"result_files", Json::array()},
      {"seed", job.seed},
      {"status", JobStatusName(job.status)},
      {"suffix", TextOrNull(job.suffix)},
      {"trained_tokens", job.status == JobStatus::kSucceeded ? Json(job.trained_tokens) : Json()},
      {"training_file", job.training_file},
      {"validation_file", nullptr}};
}

Json EventJson(const std::string& job, const JobEvent& event) {
  return {{"id", EventId(job, event.number)}, {"object", "fine_tuning.job.event"},
          {"created_at", event.created_at},   {"level", event.level},
          {"message", event.message},         {"type", event.data.empty() ? "message" : "metrics"},
          {"data", ObjectOf(event.data)}};
}

// A checkpoint is what a killed server goes on from; only the last one becomes a model.
Json CheckpointJson(const LearningJob& job, const JobCheckpoint& checkpoint) {
  return {{"id", CheckpointId(job.id, checkpoint.step)},
          {"object", "fine_tuning.job.checkpoint"},
          {"created_at", checkpoint.created_at},
          {"fine_tuning_job_id", job.id},
          {"fine_tuned_model_checkpoint", nullptr},
          {"step_number", checkpoint.step},
          {"metrics", {{"step", checkpoint.step}, {"train_loss", checkpoint.loss}}}};
}

}  // namespace graft
