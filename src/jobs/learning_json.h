// The records of learning as JSON, of which a reader skips fields that it does not know, so that
// two versions share one store. Plain data; pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "jobs/learning_records.h"

namespace graft {

std::string ToJson(const LearningFile& file);
std::string ToJson(const LearningJob& job);  // but for is_cancelled
std::string ToJson(const JobEvent& event);
// `file`: where the state is, see LearningJob::checkpoint.
std::string ToJson(const JobCheckpoint& checkpoint, const std::string& file);

// kDataLoss for what is no such record.
Result<LearningFile> LearningFileOf(const std::string& json);
Result<LearningJob> LearningJobOf(const std::string& json);
Result<JobEvent> JobEventOf(const std::string& json);
Result<JobCheckpoint> JobCheckpointOf(const std::string& json, std::string* file = nullptr);

}  // namespace graft
