// A group of documents whose adapters `graft learn` trains side by side, and writes. Main thread.
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

// Trains the jobs, whose data go, from their checkpoints where they have any; writes and reports
// their adapters. The others are finished where one fails, and its error is returned. A checkpoint
// stays until its adapter is there.
Status LearnTogether(const LearnOptions& options, const TaskSet& task, Learner& learner,
                     LoadedModel& model, const BaseIdentity& base, const TrainingLimits& limits,
                     std::span<LearnJob> jobs);

// Of the adapter that is a task's, so named, and a document's in one.
std::string JoinedName(const TaskSet::FrozenDocument& document, const std::string& name);

}  // namespace graft
