// Recipe: how a document becomes an adapter: the learner and all of its settings, and what
// graft.json says of them. What `graft learn` and jobs over HTTP share. Pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"
#include "document/document.h"
#include "jobs/document_method.h"
#include "learn/learner.h"
#include "learn/training_run.h"
#include "options/option.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"

namespace graft {

// In the order of kLearnerNames and kPromptWords.
enum class LearnerKind : uint8_t { kDistill, kNextToken, kMemory, kPrefix, kTask, kEncoder };
enum class TeacherPrompts : uint8_t { kAuto, kPlain, kChat };
const char* WordOf(LearnerKind learner);
const char* WordOf(TeacherPrompts prompts);

struct LearnRecipe {
  DocumentMethod method;
  LearnerKind learner = LearnerKind::kDistill;  // the method's
  bool begins_encoded = false;  // with what an encoder makes of the document; the method's
  TeacherPrompts prompts = TeacherPrompts::kAuto;
  std::vector<Document> keep_texts;  // the method's, read
  uint64_t seed = 0;
};

// What a method asks for, but for the files that it names; kInvalidArgument for a learner that
// there is not, and for one that begins with no other adapter.
Result<LearnRecipe> RecipeOf(const DocumentMethod& method, uint64_t seed);

// `prompts` are no longer auto then: chat where the folder has a template.
Status ResolvePrompts(const std::string& model_dir, LearnRecipe* recipe);

// Makes a learner that trains on documents. The recipe's `prompts` are resolved. `model_dir` has
// the chat template; kFailedPrecondition if a template is asked for and there is none. The
// tokenizer outlives the learner.
Result<std::unique_ptr<Learner>> MakeLearner(const LearnRecipe& recipe, const Tokenizer& tokenizer,
                                             const std::string& model_dir);
// The learner of that name; of task, which has its data from a file, an empty one.
std::unique_ptr<Learner> MakeDocumentLearner(LearnerKind kind, DistillSettings settings);
// A text for people: by each learner's name its number of this row, but for those that are 0.
std::string OwnOfLearners(const MethodRow& row);
LearnerRates RatesOf(const LearnRecipe& recipe, const Learner& learner);
LearnerParts PartsOf(const LearnRecipe& recipe, const Learner& learner);
// The shape of a document's adapter; its virtual tokens can begin with so many tokens of text.
TrainedShape ShapeOf(const LearnRecipe& recipe, const Learner& learner, size_t text_tokens);

// What looks like a special token in a document is text.
Result<LearnerInput> LearnerInputOf(const LearnRecipe& recipe, const std::string& text,
                                    const Tokenizer& tokenizer);
// kInvalidArgument where the learner's texts are longer than the model's context. `window_tokens`:
// what the caller calls these.
Status CheckContext(const LearnRecipe& recipe, const Learner& learner, const ModelConfig& config,
                    const std::string& window_tokens);

// What an adapter comes from: all that its numbers depend on, but for the processor's instructions.
OrderedJson OriginJson(const LearnRecipe& recipe, const Learner& learner, const TrainedShape& shape,
                       const LoadedModel& model, const BaseIdentity& base, const Document& document,
                       size_t num_tokens);
// All that a run's bits depend on besides its examples: where it or each of its documents comes
// from, and how this machine computes.
std::string RunIdentity(const OrderedJson& origin, const LoadedModel& model);
// What the texts that the base writes depend on, besides what it is told.
std::string TextsIdentity(const LoadedModel& model, const BaseIdentity& base);
OrderedJson ScoresJson(const TrainingScores& scores);

// kFailedPrecondition for an adapter that is no better than none: it is not kept. `advice`: what to
// do about it.
Status CheckLearned(const std::string& name, const TrainingScores& scores,
                    const std::string& advice);

}  // namespace graft
