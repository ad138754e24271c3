#include "tuning/recipe.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "executor/arithmetic_id.h"
#include "tuning/teacher_prompts.h"

namespace graft {
namespace {

// What the teacher is told behind a window of the document, in plain text: nothing, so that it goes
// on; and a summary, in words that a model without a chat template follows, too.
constexpr const char* kSummaryPlain = "\n\nA summary of the preceding passage:\n";
// The same to a model that follows messages: the window comes first in the teacher's.
constexpr const char* kSummaryChat = "Summarize the preceding passage.";

// So many passes have kept texts of their own, which take time to write; the others repeat them.
constexpr int32_t kKeptPassesMax = 8;
// What the base writes of itself: anything, and pages with a title.
constexpr const char* kKeptStarts[] = {"", "# "};

// What looks like a special token in a document is text.
Result<std::vector<int32_t>> TokensOf(const std::string& text, const Tokenizer& tokenizer) {
  const TextRange all = {0, text.size()};
  return tokenizer.Encode(text, /*add_special_tokens=*/false, {&all, 1});
}

Result<DistillSettings> DistillSettingsOf(const LearnRecipe& recipe, const Tokenizer& tokenizer,
                                          const std::string& model_dir) {
  CHECK(recipe.prompts != TeacherPrompts::kAuto);
  DistillSettings settings;
  settings.start_tokens = static_cast<int32_t>(tokenizer.prefix_ids().size());
  settings.outputs = recipe.method.outputs;
  settings.output_tokens = recipe.method.output_tokens;
  settings.questions = recipe.method.questions;
  ASSIGN_OR_RETURN(DistillPrompt going_on, PlainPrompt(tokenizer, ""));
  settings.prompts.push_back(std::move(going_on));
  std::optional<ChatTemplate> chat;
  DistillPrompt summary;
  if (recipe.prompts == TeacherPrompts::kChat) {
    ASSIGN_OR_RETURN(chat, LoadChatTemplate(model_dir));
    ASSIGN_OR_RETURN(summary, ChatPrompt(*chat, tokenizer, kSummaryChat));
  } else {
    ASSIGN_OR_RETURN(summary, PlainPrompt(tokenizer, kSummaryPlain));
  }
  settings.prompts.push_back(std::move(summary));
  settings.kept = recipe.method.keep;
  settings.kept_weight = static_cast<float>(recipe.method.keep_weight);
  const LearnerRates rates = RatesOf(recipe, *MakeDocumentLearner(recipe.learner, {}));
  settings.kept_passes = std::min(rates.passes, kKeptPassesMax);
  settings.visits = int64_t{rates.steps} * rates.batch;
  for (const Document& document : recipe.keep_texts) {
    ASSIGN_OR_RETURN(std::vector<int32_t> tokens, TokensOf(document.text, tokenizer));
    settings.kept_texts.push_back(std::move(tokens));
  }
  for (const char* start : kKeptStarts) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> behind, tokenizer.Encode(start, false));
    std::vector<int32_t> tokens = tokenizer.prefix_ids();
    tokens.insert(tokens.end(), behind.begin(), behind.end());
    if (!tokens.empty()) settings.kept_starts.push_back(std::move(tokens));
  }
  ASSIGN_OR_RETURN(settings.form, MakeQuestionForm(std::move(chat), tokenizer));
  return settings;
}

OrderedJson SettingsJson(const LearnRecipe& recipe, const Learner& learner,
                         const TrainedShape& shape) {
  const LearnerRates rates = RatesOf(recipe, learner);
  OrderedJson json = {{"name", learner.name()}};
  if (shape.rank > 0) {
    json.update(
        {{"rank", shape.rank}, {"scale", shape.scale}, {"learning_rate", rates.learning_rate}});
  }
  if (shape.virtual_tokens > 0) {
    json.update({{"virtual_tokens", shape.virtual_tokens},
                 {"prompt_learning_rate", rates.prompt_learning_rate}});
  }
  if (rates.steps > 0) {
    json["steps"] = rates.steps;
  } else {
    json["passes"] = rates.passes;
  }
  json.update({{"batch", rates.batch},
               {"window_tokens", recipe.method.window_tokens},
               {"held_out_share", recipe.method.held_out_share}});
  if (learner.writes()) {
    VisitMethod(recipe.method, [&json](const MethodRow& row, const auto& value) {
      if (row.is_written_by) json[row.name] = value;
    });
    json["prompts"] = WordOf(recipe.prompts);  // no longer auto
    for (const Document& document : recipe.keep_texts) {
      json["keep_texts"].push_back(document.hash);
    }
  }
  return json;
}

// The place of a word among `words`.
template <size_t N>
Result<size_t> PlaceOf(const std::string& word, const char* const (&words)[N], const char* what) {
  const auto* const found = std::find(std::begin(words), std::end(words), word);
  if (found != std::end(words)) return static_cast<size_t>(found - std::begin(words));
  return InvalidArgumentError("this server has no " + std::string(what) + " '" + word + "'");
}

// The learner's own numbers, as a method would ask for them.
DocumentMethod OwnOf(const Learner& learner) {
  const LearnerRates rates = learner.rates();
  const LearnerParts parts = learner.parts();
  DocumentMethod own;
  own.rank = parts.rank;
  own.virtual_tokens = parts.virtual_tokens;
  own.learning_rate = rates.learning_rate;
  if (parts.virtual_tokens > 0) own.prompt_learning_rate = rates.prompt_learning_rate;
  own.passes = rates.passes;
  own.steps = rates.steps;
  own.batch = rates.batch;
  return own;
}

}  // namespace

const char* WordOf(LearnerKind learner) { return kLearnerNames[static_cast<size_t>(learner)]; }
const char* WordOf(TeacherPrompts prompts) { return kPromptWords[static_cast<size_t>(prompts)]; }

Result<LearnRecipe> RecipeOf(const DocumentMethod& method, uint64_t seed) {
  LearnRecipe recipe;
  ASSIGN_OR_RETURN(const size_t learner, PlaceOf(method.learner, kLearnerNames, "learner"));
  ASSIGN_OR_RETURN(const size_t prompts, PlaceOf(method.prompts, kPromptWords, "prompts"));
  ASSIGN_OR_RETURN(const size_t begin, PlaceOf(method.begin, kBeginWords, "begin"));
  if (method.hidden_states != "none") {
    return InvalidArgumentError(std::string("hidden_states ") + kHiddenStatesRemoved);
  }
  if (const std::string wrong = OutOfRange(method); !wrong.empty()) {
    return InvalidArgumentError(wrong);
  }
  recipe.method = method;
  recipe.learner = static_cast<LearnerKind>(learner);
  recipe.begins_encoded = begin == 1;
  if (recipe.begins_encoded && recipe.learner != LearnerKind::kDistill) {
    return InvalidArgumentError(std::string("what an encoder makes is where distill may begin, and "
                                            "not where ") +
                                WordOf(recipe.learner) + " does");
  }
  recipe.prompts = static_cast<TeacherPrompts>(prompts);
  recipe.seed = seed;
  return recipe;
}

Status ResolvePrompts(const std::string& model_dir, LearnRecipe* recipe) {
  if (recipe->prompts != TeacherPrompts::kAuto) return OkStatus();
  ASSIGN_OR_RETURN(const std::optional<ChatTemplate> chat, ChatTemplate::Load(model_dir));
  recipe->prompts = chat.has_value() ? TeacherPrompts::kChat : TeacherPrompts::kPlain;
  return OkStatus();
}

Result<std::unique_ptr<Learner>> MakeLearner(const LearnRecipe& recipe, const Tokenizer& tokenizer,
                                             const std::string& model_dir) {
  if (recipe.learner == LearnerKind::kNextToken) {
    return MakeNextTokenLearner(static_cast<int32_t>(tokenizer.prefix_ids().size()));
  }
  if (recipe.learner == LearnerKind::kEncoder) return MakeEncoderLearner({});
  ASSIGN_OR_RETURN(DistillSettings settings, DistillSettingsOf(recipe, tokenizer, model_dir));
  return MakeDocumentLearner(recipe.learner, std::move(settings));
}

std::unique_ptr<Learner> MakeDocumentLearner(LearnerKind kind, DistillSettings settings) {
  switch (kind) {
    case LearnerKind::kNextToken:
      return MakeNextTokenLearner(settings.start_tokens);
    case LearnerKind::kMemory:
      return MakeMemoryLearner(std::move(settings));
    case LearnerKind::kPrefix:
      return MakePrefixLearner(std::move(settings));
    case LearnerKind::kEncoder:
      return MakeEncoderLearner(std::move(settings));
    case LearnerKind::kTask:
      return MakeTaskLearner({});
    case LearnerKind::kDistill:
      break;
  }
  return MakeDistillLearner(std::move(settings));
}

std::string OwnOfLearners(const MethodRow& row) {
  std::string text;
  for (size_t i = 0; i < std::size(kLearnerNames); ++i) {
    const DocumentMethod own = OwnOf(*MakeDocumentLearner(static_cast<LearnerKind>(i), {}));
    VisitMethod(own, [&](const MethodRow& one, const auto& value) {
      if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
        if (one.value != row.value || value == 0) return;
        text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", kLearnerNames[i],
                            static_cast<double>(value));
      }
    });
  }
  return text;
}

LearnerRates RatesOf(const LearnRecipe& recipe, const Learner& learner) {
  LearnerRates rates = learner.rates();
  if (recipe.method.learning_rate > 0.0) rates.learning_rate = recipe.method.learning_rate;
  if (recipe.method.prompt_learning_rate > 0.0)
    rates.prompt_learning_rate = recipe.method.prompt_learning_rate;
  rates.learning_rate *= recipe.method.learning_rate_factor;
  rates.prompt_learning_rate *= recipe.method.learning_rate_factor;
  if (recipe.method.passes > 0) rates.passes = recipe.method.passes;
  if (recipe.method.steps > 0) rates.steps = recipe.method.steps;
  if (recipe.method.batch > 0) rates.batch = recipe.method.batch;
  return rates;
}

LearnerParts PartsOf(const LearnRecipe& recipe, const Learner& learner) {
  LearnerParts parts = learner.parts();
  if (recipe.method.rank > 0) parts.rank = recipe.method.rank;
  if (recipe.method.virtual_tokens > 0 && parts.virtual_tokens > 0) {
    parts.virtual_tokens = recipe.method.virtual_tokens;
  }
  return parts;
}

TrainedShape ShapeOf(const LearnRecipe& recipe, const Learner& learner, size_t text_tokens) {
  const LearnerParts parts = PartsOf(recipe, learner);
  const auto virtual_tokens =
      std::min<size_t>(static_cast<size_t>(parts.virtual_tokens), text_tokens);
  return {.rank = parts.rank,
          .scale = recipe.method.alpha == 0.0 || parts.rank == 0
                       ? 1.0f
                       : static_cast<float>(recipe.method.alpha / parts.rank),
          .virtual_tokens = static_cast<int32_t>(virtual_tokens),
          .kind = parts.kind};
}

Result<LearnerInput> LearnerInputOf(const LearnRecipe& recipe, const std::string& text,
                                    const Tokenizer& tokenizer) {
  LearnerInput input;
  input.start = tokenizer.prefix_ids();  // no EOS: what follows is the document
  ASSIGN_OR_RETURN(input.tokens, TokensOf(text, tokenizer));
  input.window_tokens = recipe.method.window_tokens;
  input.held_out_share = recipe.method.held_out_share;
  input.seed = recipe.seed;
  return input;
}

Status CheckContext(const LearnRecipe& recipe, const Learner& learner, const ModelConfig& config,
                    const std::string& window_tokens) {
  const int before = PartsOf(recipe, learner).virtual_tokens;
  const int tokens = std::max(learner.ExampleTokensMax(recipe.method.window_tokens) + before,
                              learner.TeacherTokensMax(recipe.method.window_tokens));
  if (tokens <= config.context_tokens_max) return OkStatus();
  return InvalidArgumentError(
      window_tokens + " " + std::to_string(recipe.method.window_tokens) +
      (before == 0 ? "" : " behind " + std::to_string(before) + " virtual tokens") +
      " makes texts of up to " + std::to_string(tokens) +
      " tokens, more than the model's context of " + std::to_string(config.context_tokens_max));
}

OrderedJson OriginJson(const LearnRecipe& recipe, const Learner& learner, const TrainedShape& shape,
                       const LoadedModel& model, const BaseIdentity& base, const Document& document,
                       size_t num_tokens) {
  return {{"base",
           {{"name", model.name},
            {"text_hash", base.text_hash},
            {"weights_hash", base.weights_hash},
            {"dtype", DTypeName(model.weights.types.operands)}}},
          {"document",
           {{"name", document.name},
            {"sha256", document.hash},
            {"bytes", document.bytes},
            {"tokens", num_tokens}}},
          {"learner", SettingsJson(recipe, learner, shape)},
          {"seed", recipe.seed},
          {"program", "graft " GRAFT_VERSION}};
}

std::string RunIdentity(const OrderedJson& origin, const LoadedModel& model) {
  const ArithmeticParts parts = {.types = model.weights.types};
  return origin.dump() + "\n" + MakeArithmeticId(model.device, parts);
}

std::string TextsIdentity(const LoadedModel& model, const BaseIdentity& base) {
  return base.text_hash + base.weights_hash + std::string(DTypeName(model.weights.types.operands)) +
         (model.device.is_cpu() ? "cpu" : "gpu");
}

OrderedJson ScoresJson(const TrainingScores& scores) {
  OrderedJson json = {{"loss_base", scores.before},
                      {"loss", scores.after},
                      {"tokens", scores.num_rows},
                      {"best_step", scores.best_step}};
  if (scores.num_held_out_rows > 0) {
    json["held_out_loss_base"] = scores.held_out_before;
    json["held_out_loss"] = scores.held_out_after;
    json["held_out_tokens"] = scores.num_held_out_rows;
  }
  return json;
}

Status CheckLearned(const std::string& name, const TrainingScores& scores,
                    const std::string& advice) {
  if (scores.after < scores.before) return OkStatus();  // and no NaN
  return FailedPreconditionError(
      fmt::format("{} was not learned: its loss is {:.3f}, the base's is {:.3f}; {}", name,
                  scores.after, scores.before, advice));
}

}  // namespace graft
