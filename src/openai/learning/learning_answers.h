// Files, jobs, events and checkpoints as OpenAI's JSON. Pure functions; any thread.
#pragma once

#include <string>

#include "base/json.h"
#include "jobs/learning_records.h"

namespace graft {

Json FileJson(const LearningFile& file);
Json JobJson(const LearningJob& job);
Json EventJson(const std::string& job, const JobEvent& event);
Json CheckpointJson(const LearningJob& job, const JobCheckpoint& checkpoint);

}  // namespace graft
