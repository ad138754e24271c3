// `graft learn --encoder`: an encoder is taught over a corpus, makes adapters of documents, or is
// where distill begins. Main thread.
#pragma once

#include <memory>

#include "base/status.h"
#include "cli/learn_options.h"
#include "model/config.h"
#include "text/tokenizer.h"
#include "tuning/encoded_documents.h"
#include "tuning/learning_plan.h"

namespace graft {

// The plan has the documents, none beside a corpus.
Status RunEncoder(const LearnOptions& options, const ModelConfig& config,
                  const Tokenizer& tokenizer, LearningPlan& plan);

// An encoder that reads documents before they are learned.
struct Beginnings {
  KnownEncoder encoder;
  EncoderRoom room;
  TrainingLimits limits;
};
// Null if the plan's documents begin otherwise.
Result<std::unique_ptr<Beginnings>> OpenBeginnings(const LearnOptions& options,
                                                   const ModelConfig& config,
                                                   const Tokenizer& tokenizer, LearningPlan* plan);
// Checks the memory of reading, and then that of `learning`, which comes behind it.
CheckMemory BehindBeginnings(Beginnings* begins, const LearnOptions& options,
                             const ModelConfig& config, CheckMemory learning);
Status ReadBeginnings(const Beginnings& begins, LoadedModel& model, LearningPlan* plan);

}  // namespace graft
