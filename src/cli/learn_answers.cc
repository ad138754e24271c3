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
#include "learn/learned_folder.h"
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
              const std::vector<LearnJob>& jobs, Runtime& runtime) {
  uint64_t id = kFirstOwnId;
  std::optional<ChatTemplate> chat;
  if (options.recipe.prompts == TeacherPrompts::kChat) {
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
    for (const LearnJob& job : jobs) {
      ASSIGN_OR_RETURN(const std::string text,
                       AnswerTo(runtime, tokenizer, job.name, prompt, options.answer_tokens, ++id));
      std::printf("  %-12s %s\n", job.name.c_str(), text.c_str());
    }
  }
  return OkStatus();
}

Result<std::optional<HeldOutAnswers>> AskJob(const LearnJob& job, const Tokenizer& tokenizer,
                                             Runtime& runtime, uint64_t* id) {
  const HeldOutQuiz quiz = MakeQuiz(job.asked, tokenizer);
  if (quiz.orders.empty()) return std::optional<HeldOutAnswers>();
  ASSIGN_OR_RETURN(const AdapterInfo adapter, runtime.catalog().Find(job.name));
  const uint64_t first = *id;
  *id += 2 * quiz.orders.size();
  EngineWriter pupil(runtime.engine(), {.first_id = first, .adapter = adapter.key()});
  EngineWriter base(runtime.engine(), {.first_id = first + quiz.orders.size()});
  return AskHeldOut(quiz, pupil, base, tokenizer);
}

Status TellWhatIsKnown(const Tokenizer& tokenizer, const std::vector<LearnJob>& jobs,
                       Runtime& runtime) {
  uint64_t id = 1;
  for (const LearnJob& job : jobs) {
    ASSIGN_OR_RETURN(const std::optional<HeldOutAnswers> answers,
                     AskJob(job, tokenizer, runtime, &id));
    if (!answers.has_value()) continue;
    std::printf("%s knows  %s\n", job.name.c_str(), DescribeAnswers(*answers).c_str());
    RETURN_IF_ERROR(AddToScores(job.folder, "held_out_answers", HeldOutAnswersJson(*answers)));
    const std::string warning =
        WarnOfAnswers(*answers, "more --questions or --passes teach it more");
    if (!warning.empty()) LOG_WARN("{}: {}", job.name, warning);
  }
  return OkStatus();
}

}  // namespace

Status AskAll(const LearnOptions& options, const Tokenizer& tokenizer, LoadedModel& model,
              const std::vector<LearnJob>& jobs) {
  const bool is_asked =
      std::any_of(jobs.begin(), jobs.end(), [](const LearnJob& job) { return !job.asked.empty(); });
  if (!is_asked && options.questions.empty()) return OkStatus();
  RuntimeOptions served = options.runtime;
  served.adapters = options.adapters;
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(served, model, /*lora=*/true));
  RETURN_IF_ERROR(runtime->LoadAdapters());
  runtime->engine().Start();
  RETURN_IF_ERROR(TellWhatIsKnown(tokenizer, jobs, *runtime));
  return AskOwn(options, tokenizer, model, jobs, *runtime);
}

}  // namespace graft
