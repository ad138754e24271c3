#include "tuning/learning_plan.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <utility>

#include "base/json.h"

namespace graft {

LearnWords WordsOfCommand() {
  return {
      .window_tokens = FlagOf("window_tokens"),
      .output_tokens = FlagOf("output_tokens"),
      .lower_rates = "lower " + FlagOf("learning_rate") + " or " + FlagOf("prompt_learning_rate"),
      .teach_more = "more " + FlagOf("questions") + " or " + FlagOf("passes") + " teach it more"};
}

LearnWords WordsOfJobs() {
  return {
      .window_tokens = FieldOf("window_tokens"),
      .output_tokens = FieldOf("output_tokens"),
      .lower_rates = "lower " + FieldOf("learning_rate_factor"),
      .teach_more = "more " + FieldOf("passes") + " or " + FieldOf("questions") + " teach it more"};
}

Result<LearningPlan> MakePlan(LearnRecipe recipe, LearnWords words, const Tokenizer& tokenizer,
                              const std::string& model_dir) {
  LearningPlan plan = {.recipe = std::move(recipe), .words = std::move(words)};
  RETURN_IF_ERROR(ResolvePrompts(model_dir, &plan.recipe));
  ASSIGN_OR_RETURN(plan.learner, MakeLearner(plan.recipe, tokenizer, model_dir));
  plan.writes = plan.learner->writes();
  return plan;
}

Result<LearningPlan> MakeTaskPlan(LearnRecipe recipe, LearnWords words, const std::string& lines,
                                  const std::string& adapters, const ModelConfig& config,
                                  const Tokenizer& tokenizer, const std::string& model_dir) {
  LearningPlan plan = {.recipe = std::move(recipe), .words = std::move(words)};
  RETURN_IF_ERROR(ResolvePrompts(model_dir, &plan.recipe));
  ASSIGN_OR_RETURN(plan.task,
                   ReadTaskSet(lines, adapters, plan.recipe, config, tokenizer, model_dir));
  plan.learner = MakeTaskLearner(plan.task.questions);
  return plan;
}

Status AddDocument(LearningDocument document, const Tokenizer& tokenizer, LearningPlan* plan) {
  ASSIGN_OR_RETURN(document.input, LearnerInputOf(plan->recipe, document.document.text, tokenizer));
  plan->documents.push_back(std::move(document));
  return OkStatus();
}

Status CheckPlan(const LearningPlan& plan, const LearnSizes& sizes, const ModelConfig& config) {
  RETURN_IF_ERROR(CheckContext(plan.recipe, *plan.learner, config, plan.words.window_tokens));
  const int32_t before =
      std::max({sizes.frozen.embeddings, sizes.frozen.keys_values, sizes.virtual_tokens});
  const int32_t context = config.context_tokens_max;
  if (before + sizes.example_tokens_max <= context) return OkStatus();
  return InvalidArgumentError(
      std::to_string(before) + " virtual tokens of a document and examples of up to " +
      std::to_string(sizes.example_tokens_max) + " tokens are more than the model's context of " +
      std::to_string(context) +
      (plan.begins.encoder.empty() ? "; fewer " + FlagOf("virtual_tokens") + ", or larger " +
                                         FlagOf("window_tokens") + " of a document, make room"
                                   : "; a larger compression makes room"));
}

Status CheckTexts(const LearningPlan& plan, const GeneratorLimits& limits) {
  size_t longest = 0;
  for (const LearningDocument& document : plan.documents) {
    longest = std::max(longest, document.input.tokens.size());
  }
  const DocumentMethod& method = plan.recipe.method;
  const size_t window = std::min(longest, static_cast<size_t>(method.window_tokens));
  const int32_t tokens = plan.learner->TeacherTokensMax(static_cast<int32_t>(window));
  if (tokens <= limits.context_tokens_max) return OkStatus();
  return InvalidArgumentError(
      "the base would read and write up to " + std::to_string(tokens) +
      " tokens at once, and its texts have at most " + std::to_string(limits.context_tokens_max) +
      ": lower " + plan.words.window_tokens + " (" + std::to_string(method.window_tokens) +
      ") or " + plan.words.output_tokens + " (" + std::to_string(method.output_tokens) + ")");
}

LearnSizes SizesOfPlan(const LearningPlan& plan) {
  std::vector<const LearnerInput*> inputs;
  for (const LearningDocument& document : plan.documents) inputs.push_back(&document.input);
  LearnSizes sizes = SizesOfDocuments(plan.recipe, *plan.learner, inputs);
  for (const TaskSet::FrozenDocument& document : plan.task.documents) {
    sizes.frozen.rank = std::max(sizes.frozen.rank, document.shape.rank);
    int32_t& tokens = document.shape.kind == VirtualTokenKind::kEmbedding
                          ? sizes.frozen.embeddings
                          : sizes.frozen.keys_values;
    tokens = std::max(tokens, document.shape.virtual_tokens);
    sizes.frozen.shapes.push_back(document.shape);
  }
  sizes.frozen.bytes = plan.task.bytes;
  if (plan.begins.encoder.empty()) return sizes;
  sizes.frozen.bytes += plan.begins.bytes;
  for (const LearningDocument& document : plan.documents) {
    sizes.rank = document.shape.rank;
    sizes.virtual_tokens = std::max(sizes.virtual_tokens, document.shape.virtual_tokens);
    sizes.kind = document.shape.kind;
  }
  return sizes;
}

Status PrepareAll(const LearnSizes& sizes, std::span<TextWriter* const> writers,
                  std::stop_source stop, LearningPlan* plan) {
  std::vector<const LearnerInput*> inputs;
  for (const LearningDocument& document : plan->documents) inputs.push_back(&document.input);
  std::vector<Result<LearnerData>> prepared =
      PrepareTogether(*plan->learner, inputs, writers, std::move(stop));
  Status first;  // another's is that it was given up
  for (size_t i = 0; i < prepared.size(); ++i) {
    const Status& status = prepared[i].status();
    if (status.ok() || (!first.ok() && status.code() == StatusCode::kCancelled)) continue;
    const std::string& name = plan->documents[i].name;
    const Status told = name.empty() ? status : status.WithContext(name);
    if (first.ok() || first.code() == StatusCode::kCancelled) first = told;
  }
  RETURN_IF_ERROR(first);
  for (size_t i = 0; i < prepared.size(); ++i) {
    LearningDocument& document = plan->documents[i];
    document.data = std::move(*prepared[i]);
    RETURN_IF_ERROR(CheckExamples(document.data, sizes));
    document.asked = std::move(document.data.asked);
    document.data.begins = std::move(document.begins);
    if (!plan->begins.encoder.empty()) continue;  // the shape is the encoder's
    document.shape = ShapeOf(plan->recipe, *plan->learner, document.data.text.size());
  }
  return OkStatus();
}

LearnerRates RatesOf(const LearningPlan& plan) { return RatesOf(plan.recipe, *plan.learner); }

OrderedJson OriginOf(const LearningPlan& plan, const LearningDocument& document,
                     const LoadedModel& model, const BaseIdentity& base) {
  OrderedJson origin = OriginJson(plan.recipe, *plan.learner, document.shape, model, base,
                                  document.document, document.input.tokens.size());
  for (const TaskSet::FrozenDocument& frozen : plan.task.documents) {
    origin["documents"][frozen.name] = frozen.hash;
  }
  if (!plan.begins.encoder.empty()) {
    origin["learner"]["begins_with"] = {{"encoder", plan.begins.encoder},
                                        {"decoder", plan.begins.decoder},
                                        {"compression", plan.begins.compression}};
  }
  return origin;
}

Result<std::string> WriteAdapter(const std::string& folder, const LearnedAdapter& adapter,
                                 const OrderedJson& provenance, const LoadedModel& model) {
  return WriteLearnedFolder(folder, model.config, adapter, model.weights.types.adapters, model.name,
                            provenance);
}

std::vector<Result<LearnerData>> PrepareTogether(Learner& learner,
                                                 std::span<const LearnerInput* const> inputs,
                                                 std::span<TextWriter* const> writers,
                                                 std::stop_source stop) {
  std::vector<Result<LearnerData>> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    all.push_back(Status(StatusCode::kCancelled, "another document failed"));
  }
  std::atomic<size_t> next = 0;
  const auto prepare = [&](TextWriter* writer) {
    for (size_t i = next++; i < inputs.size() && !stop.stop_requested(); i = next++) {
      all[i] = learner.Prepare(*inputs[i], writer);
      if (!all[i].ok()) stop.request_stop();
    }
  };
  std::vector<std::future<void>> threads;
  for (size_t i = 1; i < std::min(writers.size(), inputs.size()); ++i) {
    threads.push_back(std::async(std::launch::async, prepare, writers[i]));
  }
  prepare(writers.empty() ? nullptr : writers[0]);
  for (std::future<void>& thread : threads) thread.get();
  return all;
}

}  // namespace graft
