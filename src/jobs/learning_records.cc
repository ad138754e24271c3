#include "jobs/learning_records.h"

#include <utility>

#include "base/check.h"
#include "base/json.h"

namespace graft {
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

std::string ToJson(const DocumentMethod& method) {
  Json json = {{"learner", method.learner},
               {"passes", method.passes},
               {"batch", method.batch},
               {"learning_rate_factor", method.learning_rate_factor},
               {"rank", method.rank},
               {"virtual_tokens", method.virtual_tokens},
               {"alpha", method.alpha},
               {"window_tokens", method.window_tokens},
               {"held_out_share", method.held_out_share},
               {"questions", method.questions},
               {"outputs", method.outputs},
               {"output_tokens", method.output_tokens},
               {"keep", method.keep},
               {"prompts", method.prompts}};
  if (method.hidden_states != "none") json["hidden_states"] = method.hidden_states;
  return DumpJson(json);
}

DocumentMethod DocumentMethodOf(const std::string& text) {
  DocumentMethod method;
  const Result<Json> json = ParseJson(text);
  if (!json.ok() || !json->is_object()) return method;
  const auto take = [&json](const char* key, auto* value) {
    const auto it = json->find(key);
    if (it != json->end() && it->is_number()) it->get_to(*value);
  };
  const auto take_text = [&json](const char* key, std::string* value) {
    const auto it = json->find(key);
    if (it != json->end() && it->is_string()) it->get_to(*value);
  };
  take_text("learner", &method.learner);
  take_text("prompts", &method.prompts);
  take_text("hidden_states", &method.hidden_states);
  take("passes", &method.passes);
  take("batch", &method.batch);
  take("learning_rate_factor", &method.learning_rate_factor);
  take("rank", &method.rank);
  take("virtual_tokens", &method.virtual_tokens);
  take("alpha", &method.alpha);
  take("window_tokens", &method.window_tokens);
  take("held_out_share", &method.held_out_share);
  take("questions", &method.questions);
  take("outputs", &method.outputs);
  take("output_tokens", &method.output_tokens);
  take("keep", &method.keep);
  return method;
}

}  // namespace graft
