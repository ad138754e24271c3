// What is asked of adapters that `graft learn` has made, by the server's own engine, which loads
// them from their folders. Main thread.
#pragma once

#include <vector>

#include "base/status.h"
#include "cli/learn_job.h"
#include "cli/learn_options.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"

namespace graft {

// The questions that each adapter was not taught, to it and to the base: what they know is printed,
// and graft.json has it. Then those of --ask, likewise, with their answers.
Status AskAll(const LearnOptions& options, const Tokenizer& tokenizer, LoadedModel& model,
              const std::vector<LearnJob>& jobs);

}  // namespace graft
