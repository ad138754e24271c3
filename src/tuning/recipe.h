// Recipe: how a document becomes an adapter: the learner and all of its settings, and what
// graft.json says of them. What `graft learn` and jobs over HTTP share. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"
#include "document/document.h"
#include "learn/encoder_run.h"
#include "learn/learner.h"
#include "learn/training_run.h"
#include "options/option.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"

namespace graft {

enum class LearnerKind : uint8_t { kNextToken, kDistill, kMemory, kPrefix, kTask, kEncoder };
inline constexpr OptionWord<LearnerKind> kLearnerWords[] = {
    {LearnerKind::kDistill, "distill"}, {LearnerKind::kNextToken, "next-token"},
    {LearnerKind::kMemory, "memory"},   {LearnerKind::kPrefix, "prefix"},
    {LearnerKind::kTask, "task"},       {LearnerKind::kEncoder, "encoder"}};

// How the base is told what to write, and how questions are asked: text that it goes on with, or
// its chat template's messages; auto: these where it has one.
enum class TeacherPrompts : uint8_t { kAuto, kPlain, kChat };
inline constexpr OptionWord<TeacherPrompts> kTeacherPromptsWords[] = {
    {TeacherPrompts::kAuto, "auto"},
    {TeacherPrompts::kPlain, "plain"},
    {TeacherPrompts::kChat, "chat"}};

// What makes an encoder's memories (Embedder).
inline constexpr OptionWord<Embedder> kEmbedderWords[] = {
    {Embedder::kTrained, "none"}, {Embedder::kLast, "last"}, {Embedder::kMean, "mean"}};

struct LearnRecipe {
  LearnerKind learner = LearnerKind::kDistill;
  int questions = 192;  // these four: for learners that have texts written
  int outputs = 1;
  int output_tokens = 128;
  int keep = 32;  // texts of a pass that are not about the document, for all learners but encoder
  double keep_weight = 2.0;          // of their tokens in the loss; the document's count 1
  std::vector<Document> keep_texts;  // cut into those texts; none: the base writes them
  TeacherPrompts prompts = TeacherPrompts::kAuto;
  double alpha = 0.0;  // 0: the rank
  // These: 0: the learner's own.
  int rank = 0;
  int virtual_tokens = 0;
  double learning_rate = 0.0;
  double prompt_learning_rate = 0.0;
  int passes = 0;
  int batch = 0;
  int window_tokens = 128;
  double held_out_share = 0.05;
  double learning_rate_factor = 1.0;  // of all rates
  uint64_t seed = 0;
};

// `prompts` are no longer auto then: chat where the folder has a template.
Status ResolvePrompts(const std::string& model_dir, LearnRecipe* recipe);

// A learner that has documents as its data; `prompts` are resolved. `model_dir` has the chat
// template; kFailedPrecondition where that is asked for and is not there. The tokenizer outlives
// the learner.
Result<std::unique_ptr<Learner>> MakeLearner(const LearnRecipe& recipe, const Tokenizer& tokenizer,
                                             const std::string& model_dir);
// The learner of that name; of task, which has its data from a file, an empty one.
std::unique_ptr<Learner> MakeDocumentLearner(LearnerKind kind, DistillSettings settings);
// A text for people: by each learner's name its number, but for those that are 0.
std::string OwnOfLearners(const std::function<double(const Learner& learner)>& value);
LearnerRates RatesOf(const LearnRecipe& recipe, const Learner& learner);
LearnerParts PartsOf(const LearnRecipe& recipe, const Learner& learner);
// The shape of a document's adapter; its virtual tokens can begin with so many tokens of text.
TrainedShape ShapeOf(const LearnRecipe& recipe, const Learner& learner, size_t text_tokens);

// What looks like a special token in a document is text.
Result<LearnerInput> LearnerInputOf(const LearnRecipe& recipe, const std::string& text,
                                    const Tokenizer& tokenizer);
// kInvalidArgument where the learner's texts are longer than the model's context. `flag`: what the
// caller calls window_tokens.
Status CheckContext(const LearnRecipe& recipe, const Learner& learner, const ModelConfig& config,
                    const std::string& flag);

// What an adapter comes from: all that its numbers depend on, but for the processor's instructions.
OrderedJson OriginJson(const LearnRecipe& recipe, const Learner& learner, const TrainedShape& shape,
                       const LoadedModel& model, const BaseIdentity& base, const Document& document,
                       size_t num_tokens);
// All that a run's bits depend on besides its examples: where it or each of its documents comes
// from, and how this machine computes.
std::string RunIdentity(const OrderedJson& origin, const LoadedModel& model);
OrderedJson ScoresJson(const TrainingScores& scores);

// kFailedPrecondition for an adapter that is no better than none: it is not kept. `advice`: what to
// do about it.
Status CheckLearned(const std::string& name, const TrainingScores& scores,
                    const std::string& advice);

}  // namespace graft
