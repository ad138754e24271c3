// TaskSet: what the learner task learns from: lines of {"question", "answer", "adapter"}, and the
// adapters of documents that these name, which are there and do not move. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapters/peft_folder.h"
#include "base/status.h"
#include "learn/trainer.h"
#include "model/config.h"
#include "text/tokenizer.h"
#include "tuning/recipe.h"

namespace graft {

struct TaskSet {
  std::vector<TaskQuestion> questions;  // `document` counts `documents`
  struct FrozenDocument {
    std::string name;
    std::string hash;
    PeftContent content;
    TrainedShape shape;
  };
  std::vector<FrozenDocument> documents;
  int64_t bytes = 0;  // that the documents take in a trainer
};

// Reads lines as above; a question without "adapter" is about no document. Adapters are folders of
// `adapters`. kInvalidArgument names the line, or the adapter and what training does not support in
// it.
Result<TaskSet> ReadTaskSet(const std::string& lines, const std::string& adapters,
                            const LearnRecipe& recipe, const ModelConfig& config,
                            const Tokenizer& tokenizer, const std::string& model_dir);

// The files and the shape of an adapter that graft learn made, or one like it.
Result<TaskSet::FrozenDocument> ReadFrozenDocument(const std::string& name, const std::string& path,
                                                   const ModelConfig& config);
// Its numbers. Null for what it has not.
Status ReadInto(const TaskSet::FrozenDocument& document, const ModelConfig& config,
                TrainedLora* lora, TrainedPrompt* prompt);

// As the first adapters of the trainer, in their order.
Status AddDocuments(const TaskSet& set, const ModelConfig& config, Trainer& trainer);

// One adapter that does what both do: ranks side by side, each with its scale in its numbers.
// Either may be null.
std::unique_ptr<TrainedLora> JoinLora(const ModelConfig& config, TrainedLora* first,
                                      TrainedLora* second, DType dtype);

}  // namespace graft
