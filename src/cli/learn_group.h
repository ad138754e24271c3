// The training of `graft learn`: what its user sees of it, and the folders that it leaves. Main
// thread.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "cli/learn_options.h"
#include "tuning/learning_plan.h"

namespace graft {

// Trains documents of the plan side by side and reports their adapters. A checkpoint stays until
// its adapter is there.
Status LearnTogether(const LearnOptions& options, const LearningPlan& plan,
                     std::span<LearningDocument> documents, LoadedModel& model,
                     const BaseIdentity& base, const TrainingLimits& limits);

// The name of an adapter that joins a task's, of this name, with a document's.
std::string JoinedName(const TaskSet::FrozenDocument& document, const std::string& name);

}  // namespace graft
