// `graft learn --learner encoder`: an encoder is taught over a corpus, or makes adapters of
// documents. Main thread.
#pragma once

#include "base/status.h"
#include "cli/learn_options.h"
#include "model/config.h"
#include "text/tokenizer.h"
#include "tuning/learning_plan.h"

namespace graft {

// The plan has the documents, none beside a corpus.
Status RunEncoder(const LearnOptions& options, const ModelConfig& config,
                  const Tokenizer& tokenizer, LearningPlan& plan);

}  // namespace graft
