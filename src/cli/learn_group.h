// The adapters of a group of documents: `graft learn` trains them side by side and writes them.
// Main thread.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "cli/learn_job.h"
#include "cli/learn_options.h"
#include "learn/trainer.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"
#include "tuning/task_set.h"

namespace graft {

// Trains the jobs, from their checkpoints where they have any, and frees their data; writes and
// reports their adapters. If one fails, the others are finished, and its error is returned. A
// checkpoint stays until its adapter is there.
Status LearnTogether(const LearnOptions& options, const TaskSet& task, Learner& learner,
                     LoadedModel& model, const BaseIdentity& base, const TrainingLimits& limits,
                     std::span<LearnJob> jobs);

// The name of an adapter that joins a task's, of this name, with a document's.
std::string JoinedName(const TaskSet::FrozenDocument& document, const std::string& name);

}  // namespace graft
