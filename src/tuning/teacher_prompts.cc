#include "tuning/teacher_prompts.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"

namespace graft {
namespace {

// Stands in a message for what is not text yet. No template changes it.
constexpr const char* kMark = "GRAFT-MARK";

// A chat's prompt, which answers to `message`.
Result<std::string> RenderChat(const ChatTemplate& chat, const Tokenizer& tokenizer,
                               const std::string& message) {
  return RenderMessages(chat, tokenizer, {{"user", message}}, true);
}

Status TemplateChanges() {
  return UnimplementedError(
      "the base model's chat template changes what is said: ask for prompts in plain");
}

std::vector<int32_t> Joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

Result<std::string> RenderMessages(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                   const std::vector<ChatMessage>& messages, bool asks) {
  OrderedJson context = {{"add_generation_prompt", asks},
                         {"bos_token", tokenizer.bos_token()},
                         {"eos_token", tokenizer.eos_token()}};
  OrderedJson list = OrderedJson::array();
  for (const ChatMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  context["messages"] = chat.FitContents(std::move(list), /*with_tools=*/false);
  return chat.Render(context);
}

Result<ChatTemplate> LoadChatTemplate(const std::string& model_dir) {
  ASSIGN_OR_RETURN(std::optional<ChatTemplate> chat, ChatTemplate::Load(model_dir));
  if (chat.has_value()) return std::move(*chat);
  return FailedPreconditionError("the base model has no chat template: ask for prompts in plain");
}

Result<DistillPrompt> PlainPrompt(const Tokenizer& tokenizer, const std::string& text) {
  DistillPrompt prompt;
  prompt.before = tokenizer.prefix_ids();
  ASSIGN_OR_RETURN(prompt.behind, tokenizer.Encode(text, false));
  prompt.student = prompt.before;
  prompt.student.insert(prompt.student.end(), prompt.behind.begin(), prompt.behind.end());
  return prompt;
}

Result<DistillPrompt> ChatPrompt(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                 const std::string& instruction) {
  ASSIGN_OR_RETURN(const std::string taught,
                   RenderChat(chat, tokenizer, kMark + ("\n\n" + instruction)));
  ASSIGN_OR_RETURN(const std::string asked, RenderChat(chat, tokenizer, instruction));
  const size_t mark = taught.find(kMark);
  if (mark == std::string::npos) {
    return TemplateChanges();
  }
  DistillPrompt prompt;
  ASSIGN_OR_RETURN(prompt.before, tokenizer.Encode(taught.substr(0, mark), false));
  ASSIGN_OR_RETURN(prompt.behind,
                   tokenizer.Encode(taught.substr(mark + std::strlen(kMark)), false));
  ASSIGN_OR_RETURN(prompt.student, tokenizer.Encode(asked, false));
  return prompt;
}

std::string PlainQuestion(const std::string& question) {
  return "Question: " + question + "\nAnswer:";
}

Result<std::vector<int32_t>> AskedMessage(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                          const std::string& message) {
  ASSIGN_OR_RETURN(const std::string text, RenderChat(chat, tokenizer, message));
  return tokenizer.Encode(text, false);
}

Result<TaskQuestion> TaskQuestionOf(const ChatTemplate* chat, const Tokenizer& tokenizer,
                                    const std::string& question, const std::string& answer) {
  TaskQuestion asked;
  if (chat == nullptr) {
    ASSIGN_OR_RETURN(asked.prompt, tokenizer.Encode(PlainQuestion(question), true));
    ASSIGN_OR_RETURN(std::vector<int32_t> said, tokenizer.Encode(" " + answer, false));
    ASSIGN_OR_RETURN(const std::vector<int32_t> end,
                     tokenizer.Encode(tokenizer.eos_token(), false));
    asked.answer = Joined(std::move(said), end);
    return asked;
  }
  ASSIGN_OR_RETURN(asked.prompt, AskedMessage(*chat, tokenizer, question));
  ASSIGN_OR_RETURN(
      const std::string whole,
      RenderMessages(*chat, tokenizer, {{"user", question}, {"assistant", kMark}}, false));
  const size_t mark = whole.find(kMark);
  if (mark == std::string::npos) return TemplateChanges();
  ASSIGN_OR_RETURN(std::vector<int32_t> said, tokenizer.Encode(answer, false));
  ASSIGN_OR_RETURN(const std::vector<int32_t> end,
                   tokenizer.Encode(whole.substr(mark + std::strlen(kMark)), false));
  asked.answer = Joined(std::move(said), end);
  return asked;
}

}  // namespace graft
