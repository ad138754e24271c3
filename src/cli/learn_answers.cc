#include "cli/learn_answers.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "cli/answer_text.h"
#include "tuning/engine_writer.h"
#include "tuning/held_out_answers.h"
#include "tuning/teacher_prompts.h"

namespace graft {
namespace {

constexpr uint64_t kFirstOwnId = uint64_t{1} << 40;  // of --ask, above those of what is held out

Result<std::string> AnswerTo(Runtime& runtime, const Tokenizer& tokenizer,
                             const std::string& adapter, std::vector<int32_t> prompt,
                             int tokens_max, RequestId id) {
  Request request;
  request.id = id;
  request.prompt_tokens = std::move(prompt);
  request.sampling.temperature = 0.0f;
  request.sampling.tokens_max = tokens_max;
  if (!adapter.empty()) {
    ASSIGN_OR_RETURN(const AdapterInfo info, runtime.catalog().Find(adapter));
    request.UseAdapter(info.key());
  }
  AnswerText answer(tokenizer, {});
  RETURN_IF_ERROR(runtime.engine().Submit(std::move(request), answer.stream()));
  std::string all;
  for (bool more = true; more;) {
    std::string text;
    ASSIGN_OR_RETURN(more, answer.Next(&text));
    all += text;
  }
  std::replace(all.begin(), all.end(), '\n', ' ');
  return all;
}

// Each question of --ask to the base and to each adapter, as a server would answer it.
Status AskOwn(const LearnOptions& options, const Tokenizer& tokenizer, const LoadedModel& model,
              const LearningPlan& plan, Runtime& runtime) {
  uint64_t id = kFirstOwnId;
  std::optional<ChatTemplate> chat;
  if (plan.recipe.prompts == TeacherPrompts::kChat) {
    ASSIGN_OR_RETURN(chat, LoadChatTemplate(options.runtime.model));
  }
  for (const std::string& question : options.questions) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                     chat.has_value() ? AskedMessage(*chat, tokenizer, question)
                                      : tokenizer.Encode(question, /*add_special_tokens=*/true));
    std::printf("\n%s\n", question.c_str());
    ASSIGN_OR_RETURN(const std::string base,
                     AnswerTo(runtime, tokenizer, "", prompt, options.answer_tokens, ++id));
    std::printf("  %-12s %s\n", model.name.c_str(), base.c_str());
    for (const LearningDocument& document : plan.documents) {
      ASSIGN_OR_RETURN(const std::string text, AnswerTo(runtime, tokenizer, document.name, prompt,
                                                        options.answer_tokens, ++id));
      std::printf("  %-12s %s\n", document.name.c_str(), text.c_str());
    }
  }
  return OkStatus();
}

Result<std::optional<HeldOutAnswers>> AskDocument(const LearningDocument& document,
                                                  const Tokenizer& tokenizer, Runtime& runtime,
                                                  uint64_t* id) {
  const HeldOutQuiz quiz = MakeQuiz(document.asked, tokenizer);
  if (quiz.orders.empty()) return std::optional<HeldOutAnswers>();
  ASSIGN_OR_RETURN(const AdapterInfo adapter, runtime.catalog().Find(document.name));
  const uint64_t first = *id;
  *id += 2 * quiz.orders.size();
  EngineWriter pupil(runtime.engine(), {.first_id = first, .adapter = adapter.key()});
  EngineWriter base(runtime.engine(), {.first_id = first + quiz.orders.size()});
  return JudgeByAnswers(document.folder, quiz, pupil, base, tokenizer);
}

// What is not known of an adapter costs nothing: it is there.
void TellWhatIsKnown(const Tokenizer& tokenizer, const LearningPlan& plan, Runtime& runtime) {
  uint64_t id = 1;
  for (const LearningDocument& document : plan.documents) {
    const auto asked = AskDocument(document, tokenizer, runtime, &id);
    if (!asked.ok()) {
      LOG_WARN("what {} knows is not known: {}", document.name, asked.status().message());
      continue;
    }
    const std::optional<HeldOutAnswers>& answers = *asked;
    if (!answers.has_value()) continue;
    std::printf("%s knows  %s\n", document.name.c_str(), DescribeAnswers(*answers).c_str());
    const std::string warning = WarnOfAnswers(*answers, plan.words.teach_more);
    if (!warning.empty()) LOG_WARN("{}: {}", document.name, warning);
  }
}

}  // namespace

Status AskAll(const LearnOptions& options, const Tokenizer& tokenizer, LoadedModel& model,
              const LearningPlan& plan) {
  const bool is_asked =
      std::any_of(plan.documents.begin(), plan.documents.end(),
                  [](const LearningDocument& document) { return !document.asked.empty(); });
  if (!is_asked && options.questions.empty()) return OkStatus();
  RuntimeOptions served = options.runtime;
  served.adapters = options.adapters;
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(served, model, /*lora=*/true));
  RETURN_IF_ERROR(runtime->LoadAdapters());
  runtime->engine().Start();
  TellWhatIsKnown(tokenizer, plan, *runtime);
  return AskOwn(options, tokenizer, model, plan, *runtime);
}

}  // namespace graft
