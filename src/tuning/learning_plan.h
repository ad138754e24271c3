// LearningPlan: the documents to learn and what is learned of each, from the recipe to the
// examples. `graft learn`, jobs over HTTP and encoders all use it, and call in this order: MakePlan
// (or MakeTaskPlan), AddDocument for each document, SizesOfPlan, CheckPlan, a memory plan of
// learn_memory.h, PrepareAll. Training follows (training_group.h, encoder_folder.h). One thread.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"
#include "document/document.h"
#include "learn/learned_folder.h"
#include "learn/learner.h"
#include "learn/text_writer.h"
#include "learn/trainer.h"
#include "request/generator.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"
#include "text/tokenizer.h"
#include "tuning/learn_memory.h"
#include "tuning/recipe.h"
#include "tuning/task_set.h"

namespace graft {

// A document on its way to an adapter.
struct LearningDocument {
  std::string name;  // of the adapter, as errors have it; "": a job's, which has one document
  Document document;
  std::string folder;       // of the adapter
  std::string checkpoint;   // a file
  std::string resume_from;  // another runner's checkpoint; "": its own
  LearnerInput input = {};
  LearnerData data = {};                  // from PrepareAll to the training
  AdapterNumbers begins = {};             // of the plan's encoder, until the data has them
  std::vector<AskedQuestion> asked = {};  // of the data: it is not taught them
  TrainedShape shape = {};  // from PrepareAll on; from an encoder's adapter on, if it begins so
};

// What a caller's errors call settings, and what they advise.
struct LearnWords {
  std::string window_tokens, output_tokens;
  std::string lower_rates;  // of what was not learned
  std::string teach_more;   // of what answers badly
};
LearnWords WordsOfCommand();
LearnWords WordsOfJobs();

struct LearningPlan {
  LearnRecipe recipe;
  LearnWords words;
  std::unique_ptr<Learner> learner;
  TaskSet task;         // of the learner of that name
  bool writes = false;  // the base writes texts for it
  std::vector<LearningDocument> documents;
  // The encoder's parts by their hashes, and its compression, where documents begin with what it
  // makes of them (encoder_folder.h); else "".
  struct Beginning {
    std::string encoder, decoder;
    int32_t compression = 0;
    int64_t bytes = 0;  // of the numbers of all documents
  } begins = {};
};

Result<LearningPlan> MakePlan(LearnRecipe recipe, LearnWords words, const Tokenizer& tokenizer,
                              const std::string& model_dir);
// From lines of questions (task_set.h) about adapters that are folders of `adapters`.
Result<LearningPlan> MakeTaskPlan(LearnRecipe recipe, LearnWords words, const std::string& lines,
                                  const std::string& adapters, const ModelConfig& config,
                                  const Tokenizer& tokenizer, const std::string& model_dir);
Status AddDocument(LearningDocument document, const Tokenizer& tokenizer, LearningPlan* plan);

// What is too long for the model, virtual tokens that stand before its texts included, is found out
// before its weights are read.
Status CheckPlan(const LearningPlan& plan, const LearnSizes& sizes, const ModelConfig& config);
// The same for the engine that writes, which may take less.
Status CheckTexts(const LearningPlan& plan, const GeneratorLimits& limits);
// For all documents, learned one by one, with the task's documents. The caller sets
// how many learn at once, what is kept and the threads.
LearnSizes SizesOfPlan(const LearningPlan& plan);

// Makes the data of each document. Every writer is one thread's (PrepareTogether); without
// writers the learner has no texts written. The first failure is returned.
Status PrepareAll(const LearnSizes& sizes, std::span<TextWriter* const> writers,
                  std::stop_source stop, LearningPlan* plan);

LearnerRates RatesOf(const LearningPlan& plan);
// What graft.json says of where an adapter comes from; once its data is made.
OrderedJson OriginOf(const LearningPlan& plan, const LearningDocument& document,
                     const LoadedModel& model, const BaseIdentity& base);
// In the model's dtype. Returns the hash.
Result<std::string> WriteAdapter(const std::string& folder, const LearnedAdapter& adapter,
                                 const OrderedJson& provenance, const LoadedModel& model);

// Returns the data of each input, in the inputs' order. Each writer is used on one thread; without
// writers no texts are written for the learner. Once one document has failed, `stop` is requested,
// and the writers should give up. Documents that are not prepared by then are kCancelled.
std::vector<Result<LearnerData>> PrepareTogether(Learner& learner,
                                                 std::span<const LearnerInput* const> inputs,
                                                 std::span<TextWriter* const> writers,
                                                 std::stop_source stop);

}  // namespace graft
