
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tuning/teacher_prompts.h"

namespace graft {
namespace {

constexpr size_t kQuestionTokensMax = 64;
constexpr int32_t kPlainAnswerTokens = 32;  // a base without a chat goes on behind its answer
constexpr int32_t kChatAnswerTokens = 128;
constexpr int32_t kPlainQuestions = 4;  // of a text of 128 tokens: the base goes on with the next

// Published for this method: one of a text, which asks for no number that a small model misses.
constexpr const char* kWriteInChat = "Generate a question-answer pair given the preceding passage.";
constexpr const char* kWritePlain =
    "\n\nA question about the preceding passage, and its answer:\nQuestion:";

std::string_view WithoutMarks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r*#>-");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r*") - first + 1);
}

// What follows the word and a colon at the beginning of `line`; a number may stand between.
std::optional<std::string_view> Behind(std::string_view word, std::string_view line) {
  if (line.substr(0, word.size()) != word) return std::nullopt;
  const size_t colon = line.find_first_not_of(" *0123456789", word.size());
  if (colon == std::string_view::npos || line[colon] != ':') return std::nullopt;
  return WithoutMarks(line.substr(colon + 1));
}

// A question is a line: that behind "Question:", or one that ends as questions do. The last line is
// left where the text was cut off in it.
std::vector<std::string> QuestionLines(const std::string& text) {
  std::vector<std::string> questions;
  bool is_next = false;  // "Question:" stood alone on its line
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const bool is_whole = end != std::string::npos;
    std::string_view line = WithoutMarks(
        std::string_view(text).substr(begin, is_whole ? end - begin : std::string::npos));
    begin = is_whole ? end + 1 : text.size();
    if (line.empty()) continue;
    auto asked = Behind("Question", line);
    if (!asked.has_value()) asked = Behind("Q", line);
    if (asked.has_value() && asked->empty()) {
      is_next = true;
      continue;
    }
    const bool is_answer = Behind("Answer", line).has_value() || Behind("A", line).has_value();
    const bool asks = line.back() == '?' && !is_answer;
    if (asked.has_value() || is_next || asks) {
      const std::string_view question = asked.value_or(line);
      if (is_whole || question.back() == '?') questions.emplace_back(question);
    }
    is_next = false;
  }
  return questions;
}

class Form : public QuestionForm {
 public:
  Form(std::optional<ChatTemplate> chat, const Tokenizer& tokenizer)
      : chat_(std::move(chat)), tokenizer_(tokenizer) {}

  Status Prepare() {
    if (chat_.has_value()) {
      ASSIGN_OR_RETURN(writes_, ChatPrompt(*chat_, tokenizer_, kWriteInChat));
    } else {
      ASSIGN_OR_RETURN(writes_, PlainPrompt(tokenizer_, kWritePlain));
    }
    ASSIGN_OR_RETURN(const DistillPrompt nothing, Asked(""));
    const size_t longest =
        std::max(nothing.student.size(), nothing.before.size() + nothing.behind.size());
    prompt_tokens_max_ = static_cast<int32_t>(longest + kQuestionTokensMax);
    return OkStatus();
  }

  const DistillPrompt& writes() const override { return writes_; }
  int32_t questions_a_text() const override { return chat_.has_value() ? 1 : kPlainQuestions; }
  int32_t prompt_tokens_max() const override { return prompt_tokens_max_; }
  int32_t answer_tokens_max() const override {
    return chat_.has_value() ? kChatAnswerTokens : kPlainAnswerTokens;
  }

  Result<std::vector<DistillPrompt>> QuestionsIn(std::span<const int32_t> text) const override {
    const std::string said = tokenizer_.Decode(text, /*skip_special_tokens=*/true);
    std::vector<DistillPrompt> prompts;
    // Plain texts begin behind the word.
    for (const std::string& question :
         QuestionLines(chat_.has_value() ? said : "Question:" + said)) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer_.Encode(question, false));
      // What spells out a special token would be one in the prompt.
      const bool is_text = std::none_of(tokens.begin(), tokens.end(), [this](int32_t token) {
        return tokenizer_.IsSpecial(token);
      });
      if (!is_text) continue;
      ASSIGN_OR_RETURN(DistillPrompt prompt, Asked(question));
      const auto longest =
          std::max(prompt.student.size(), prompt.before.size() + prompt.behind.size());
      if (longest > static_cast<size_t>(prompt_tokens_max_)) continue;
      prompts.push_back(std::move(prompt));
    }
    return prompts;
  }

  // A chat's answer ends where its turn does; in plain text it is a line.
  size_t AnswerTokens(std::span<const int32_t> said) const override {
    if (chat_.has_value()) return said.size();
    const auto end = std::find_if(said.begin(), said.end(), [this](int32_t token) {
      return tokenizer_.TokenBytes(token).find('\n') != std::string::npos;
    });
    return static_cast<size_t>(end - said.begin()) + (end == said.end() ? 0 : 1);
  }

 private:
  Result<DistillPrompt> Asked(const std::string& question) const {
    if (chat_.has_value()) return ChatPrompt(*chat_, tokenizer_, question);
    ASSIGN_OR_RETURN(DistillPrompt prompt,
                     PlainPrompt(tokenizer_, "\n\n" + PlainQuestion(question)));
    ASSIGN_OR_RETURN(prompt.student, tokenizer_.Encode(PlainQuestion(question), true));
    return prompt;
  }

  const std::optional<ChatTemplate> chat_;
  const Tokenizer& tokenizer_;
  DistillPrompt writes_;
  int32_t prompt_tokens_max_ = 0;
};

}  // namespace

Result<std::shared_ptr<const QuestionForm>> MakeQuestionForm(std::optional<ChatTemplate> chat,
                                                             const Tokenizer& tokenizer) {
  auto form = std::make_shared<Form>(std::move(chat), tokenizer);
  RETURN_IF_ERROR(form->Prepare());
  return std::shared_ptr<const QuestionForm>(std::move(form));
}

}  // namespace graft
