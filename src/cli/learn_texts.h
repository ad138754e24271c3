// What `graft learn` has the base write before it trains: the engine that writes is there for that
// alone. Main thread.
#pragma once

#include "base/status.h"
#include "cli/learn_options.h"
#include "tuning/learning_plan.h"

namespace graft {

// Makes the data of each document of the plan.
Status PrepareDocuments(const LearnOptions& options, const LearnSizes& sizes, LoadedModel& model,
                        const BaseIdentity& base, LearningPlan* plan);

}  // namespace graft
