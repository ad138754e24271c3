// What is asked of adapters that `graft learn` has made, by the server's own engine, which loads
// them from their folders. Main thread.
#pragma once

#include <vector>

#include "base/status.h"
#include "cli/learn_options.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"
#include "tuning/learning_plan.h"

namespace graft {

// Asks each adapter and the base the questions that the adapter was not taught, prints what they
// know, and writes that to graft.json. Then asks them those of --ask, and prints the answers.
Status AskAll(const LearnOptions& options, const Tokenizer& tokenizer, LoadedModel& model,
              const LearningPlan& plan);

}  // namespace graft
