#include "jobs/document_method.h"

#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/json.h"
#include "base/json_fields.h"

namespace graft {
namespace {

using M = DocumentMethod;
constexpr char kOwn[] = "the learner's own";

// `rank`, `virtual_tokens` and `batch` end at what adapters and training take
// (tuning/recipe_test.cc). Two rows have no field and one has no flag: OpenAI's clients say by how
// much all rates differ from the learner's, and a command says the rates. Another has no flag
// because a command names the encoder that adapters begin with.
constexpr MethodRow kRows[] = {
    {.value = &M::learner,
     .name = "learner",
     .flag = "learner",
     .field = "learner",
     .own = "the first of them",
     .words = kLearnerNames,
     .help = "next-token: the document's own text, every token from those before it; distill: the "
             "base with the document in its context teaches the adapter without it; memory: it "
             "teaches virtual tokens in front of every prompt; prefix: it teaches keys and values "
             "there; task: answers to a file of questions, beside the frozen adapters that they "
             "name; encoder: one that makes keys and values of any document, over a corpus",
     .field_help = "one of the [learners](learning.md#learners) of one document"},
    {.value = &M::questions,
     .name = "questions",
     .flag = "questions",
     .field = "questions",
     .max = 10'000,
     .is_written_by = true,
     .help = "all but next-token: questions that the base asks itself about each whole window (a "
             "shorter one has fewer), and answers with the window in its context; the adapter "
             "learns the answers without it"},
    {.value = &M::outputs,
     .name = "outputs",
     .flag = "outputs",
     .field = "outputs",
     .max = 1000,
     .is_written_by = true,
     .help = "all but next-token: texts that the base writes for each window, as often to go on "
             "and to sum it up"},
    {.value = &M::output_tokens,
     .name = "output_tokens",
     .flag = "output-tokens",
     .field = "output_tokens",
     .min = 4,
     .max = 4096,
     .is_written_by = true,
     .help = "of such a text, at most"},
    {.value = &M::keep,
     .name = "keep",
     .flag = "keep",
     .field = "keep",
     .max = 10'000,
     .is_written_by = true,
     .help = "all but next-token and encoder: short texts about nothing that the base writes, and "
             "that the adapter is to leave as likely as they are; one for eight of the document's "
             "at most"},
    {.value = &M::keep_weight,
     .name = "keep_weight",
     .flag = "keep-weight",
     .field = "keep_weight",
     .max = 1000,
     .is_written_by = true,
     .help = "what a token of these counts in the loss, where one of the document's counts 1"},
    {.value = &M::keep_text,
     .name = "keep_text",
     .flag = "keep-text",
     .field = "keep_text",
     .max = 8,
     .own = "the base writes them",
     .help = "a file of such texts, cut to their length, in place of what the base writes",
     .field_help = "files of such texts, 8 MiB together, cut to their length, in place of what the "
                   "base writes"},
    {.value = &M::prompts,
     .name = "prompts",
     .flag = "prompts",
     .field = "prompts",
     .words = kPromptWords,
     .help = "how the base is told what to write, and how questions are asked: plain text to go on "
             "with, or its chat template's messages; auto: these where it has a template"},
    {.value = &M::rank,
     .name = "rank",
     .flag = "rank",
     .field = "rank",
     .max = 256,
     .own = kOwn,
     .help = "of LoRA on all modules"},
    {.value = &M::virtual_tokens,
     .name = "virtual_tokens",
     .flag = "virtual-tokens",
     .field = "virtual_tokens",
     .max = 16'384,
     .own = kOwn,
     .help = "how many, as many as the document has at most; of encoder behind each window, where "
             "--memory-rows says so",
     .field_help = "how many, as many as the document has at most"},
    {.value = &M::alpha,
     .name = "alpha",
     .flag = "alpha",
     .field = "alpha",
     .max = 65'536,
     .own = "the rank",
     .help = "its products count alpha / rank"},
    {.value = &M::learning_rate,
     .name = "learning_rate",
     .flag = "learning-rate",
     .field = "",
     .max = 1,
     .own = kOwn,
     .help = "of LoRA"},
    {.value = &M::prompt_learning_rate,
     .name = "prompt_learning_rate",
     .flag = "prompt-learning-rate",
     .field = "",
     .max = 10,
     .own = kOwn,
     .help = "of virtual tokens"},
    {.value = &M::learning_rate_factor,
     .name = "learning_rate_factor",
     .flag = "",
     .field = "learning_rate_multiplier",
     .max = 1000,
     .is_above = true,
     .help = "of the learner's rates"},
    {.value = &M::passes,
     .name = "passes",
     .flag = "passes",
     .field = "n_epochs",
     .max = 100'000,
     .own = kOwn,
     .help = "over all examples"},
    {.value = &M::steps,
     .name = "steps",
     .flag = "steps",
     .field = "steps",
     .max = 100'000'000,
     .own = kOwn,
     .help = "of the training, in place of those that its passes make; no more questions are asked "
             "than the steps visit; of encoder in all processes that go on with it",
     .field_help = "of the training, in place of those that `n_epochs` makes; no more questions "
                   "are asked than the steps visit"},
    {.value = &M::begin,
     .name = "begin",
     .flag = "",
     .field = "begin",
     .words = kBeginWords,
     .help = "what the adapter of `distill` begins with: numbers of its own, or what the server's "
             "[encoder](learning.md#an-encoder) makes of the document"},
    {.value = &M::compression,
     .name = "compression",
     .flag = "compression",
     .field = "compression",
     .max = 1024,
     .own = "the least that the encoder was taught",
     .help = "of an adapter that an encoder makes: tokens of the document for each of its "
             "memory's"},
    {.value = &M::batch,
     .name = "batch",
     .flag = "batch",
     .field = "batch_size",
     .max = 2048,
     .own = kOwn,
     .help = "examples of an adapter's step"},
    {.value = &M::window_tokens,
     .name = "window_tokens",
     .flag = "window-tokens",
     .field = "window_tokens",
     .min = 16,
     .max = 1 << 20,
     .help = "of the document in one example, at most"},
    {.value = &M::held_out_share,
     .name = "held_out_share",
     .flag = "held-out",
     .field = "held_out",
     .max = 0.5,
     .help = "share of the examples that are not learned but looked at"}};

}  // namespace

std::span<const MethodRow> MethodRows() { return kRows; }

const MethodRow& MethodRowOf(const char* name) {
  for (const MethodRow& row : kRows) {
    if (std::strcmp(row.name, name) == 0) return row;
  }
  CHECK(false) << "no setting is called " << name;
  return kRows[0];
}

std::string FlagOf(const char* name) { return std::string("--") + MethodRowOf(name).flag; }
std::string FieldOf(const char* name) { return MethodRowOf(name).field; }

std::string ToJson(const DocumentMethod& method) {
  Json json = Json::object();
  VisitMethod(method, [&json](const MethodRow& row, const auto& value) {
    if (*row.field != '\0') json[row.name] = value;
  });
  if (method.hidden_states != "none") json["hidden_states"] = method.hidden_states;
  return DumpJson(json);
}

DocumentMethod DocumentMethodOf(const std::string& text) {
  DocumentMethod method;
  const Result<Json> json = ParseJson(text);
  if (!json.ok() || !json->is_object()) return method;
  VisitMethod(method, [&json](const MethodRow& row, auto& value) {
    if (*row.field != '\0') ReadField(*json, row.name, &value);
  });
  ReadField(*json, "hidden_states", &method.hidden_states);
  return method;
}

std::string OutOfRange(const DocumentMethod& method) {
  std::string wrong;
  VisitMethod(method, [&wrong](const MethodRow& row, const auto& value) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      if (!wrong.empty() || static_cast<double>(value) <= row.max) return;
      wrong = std::string(*row.field == '\0' ? row.name : row.field) + " is " + Json(value).dump() +
              ", " + Json(static_cast<int64_t>(row.max)).dump() + " at most";
    }
  });
  return wrong;
}

}  // namespace graft
