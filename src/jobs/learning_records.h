// What is kept of learning asked for over HTTP: files, jobs, what happened to them. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "jobs/document_method.h"

namespace graft {

// Times are Unix seconds; 0: not so far, or never.
struct LearningFile {
  std::string id;
  std::string tenant;
  std::string name;  // as the client calls it
  std::string purpose;
  int64_t bytes = 0;
  int64_t created_at = 0;
  int64_t expires_at = 0;

  bool operator==(const LearningFile&) const = default;
};

enum class JobStatus : uint8_t {
  kQueued,
  kValidating,  // its file is read
  kRunning,
  kSucceeded,
  kFailed,
  kCancelled,
};
inline constexpr size_t kNumJobStatuses = 6;
// OpenAI's words, "validating_files".
const char* JobStatusName(JobStatus status);
JobStatus JobStatusOf(const std::string& name);
inline bool IsFinished(JobStatus status) { return status >= JobStatus::kSucceeded; }

struct JobError {
  std::string code;
  std::string message;
  std::string param;  // "": about none

  bool operator==(const JobError&) const = default;
};

struct LearningJob {
  std::string id;
  std::string tenant;
  std::string base_model;
  std::string training_file;
  std::string suffix;
  std::string metadata;  // a JSON object, or ""
  uint32_t seed = 0;
  DocumentMethod method;
  int64_t created_at = 0;

  JobStatus status = JobStatus::kQueued;
  bool is_cancelled = false;  // asked for; it ends with the step that runs
  int64_t started_at = 0;     // for the first time
  int64_t finished_at = 0;
  int64_t estimated_finish = 0;
  int64_t trained_tokens = 0;
  JobError error;
  // What was learned:
  std::string adapter;  // its name; "" once it is deleted
  std::string hash;
  int32_t rank_max = 0;
  int32_t num_virtual_tokens = 0;
  int64_t bytes = 0;
  std::string base_hash;  // of the base that it was learned on
  // For a job that NextJob gave: how often it was begun without an end since it last got on, this
  // time included.
  int32_t begins = 0;
  // On a cluster, of the runner that has the job or had it last: `folder` is the job's folder among
  // the learned ones, and its file among checkpoints; "": both have the job's id. `checkpoint` is
  // the file of the last checkpoint, which may be another runner's; "": the same file.
  std::string folder;
  std::string checkpoint;

  const std::string& folder_name() const { return folder.empty() ? id : folder; }
  const std::string& checkpoint_name() const {
    return checkpoint.empty() ? folder_name() : checkpoint;
  }
  bool operator==(const LearningJob&) const = default;
};

struct JobEvent {
  int64_t number = 0;  // within its job, from 1 on
  int64_t created_at = 0;
  std::string level = "info";  // warn, error
  std::string message;
  std::string data;  // a JSON object of metrics, or "" for a message
};

struct JobCheckpoint {
  int64_t step = 0;
  int64_t created_at = 0;
  double loss = 0.0;
};

// All tenants' jobs, for an operator.
struct JobsOverview {
  struct Row {
    LearningJob job;
    std::string progress;  // data of its last event that has any, or ""
  };
  std::array<int64_t, kNumJobStatuses> counts = {};  // by JobStatus
  std::vector<Row> rows;                             // those not finished first, the newest first
};

// A part of a list.
template <typename T>
struct Page {
  std::vector<T> items;
  bool has_more = false;
};
struct PageQuery {
  std::string after;  // an id; "": from the start
  int32_t limit = 20;
  bool is_ascending = false;  // the oldest first
};

}  // namespace graft
