#include "jobs/learning_records.h"

#include <utility>

#include "base/check.h"

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

}  // namespace graft
