#include "tuning/asked_form.h"

#include <cstring>
#include <utility>

#include "tuning/teacher_prompts.h"

namespace graft {
namespace {

// Stand in messages for what is not text yet. No template changes them.
constexpr const char* kDocument = "GRAFT-DOCUMENT";
constexpr const char* kQuestion = "GRAFT-QUESTION";
constexpr const char* kAnswer = "GRAFT-ANSWER";

// Cuts the text in two at `mark`, which it must have.
Result<std::pair<std::string, std::string>> CutAt(const char* mark, const std::string& text) {
  const size_t at = text.find(mark);
  if (at == std::string::npos) {
    return UnimplementedError(
        "the base model's chat template changes what is said: ask for prompts in plain");
  }
  return std::pair(text.substr(0, at), text.substr(at + std::strlen(mark)));
}

}  // namespace

Result<AskedForm> AskedForm::Make(const std::optional<ChatTemplate>& chat,
                                  const Tokenizer& tokenizer) {
  AskedForm texts(tokenizer);
  if (!chat.has_value()) {
    const auto [before, behind] = *CutAt(kQuestion, PlainQuestion(kQuestion));
    texts.start_ = texts.alone_start_ = tokenizer.prefix_ids();
    texts.in_context_ = {"\n\n" + before, behind};
    texts.alone_ = {before, behind};
    texts.answer_ = {" ", tokenizer.eos_token()};
    return texts;
  }
  ASSIGN_OR_RETURN(const std::string taught,
                   RenderMessages(*chat, tokenizer,
                                  {{"user", std::string(kDocument) + "\n\n" + kQuestion}}, true));
  ASSIGN_OR_RETURN(const std::string asked,
                   RenderMessages(*chat, tokenizer, {{"user", kQuestion}}, true));
  ASSIGN_OR_RETURN(
      const std::string whole,
      RenderMessages(*chat, tokenizer, {{"user", kQuestion}, {"assistant", kAnswer}}, false));
  ASSIGN_OR_RETURN(const auto document, CutAt(kDocument, taught));
  ASSIGN_OR_RETURN(auto in_context, CutAt(kQuestion, document.second));
  ASSIGN_OR_RETURN(auto alone, CutAt(kQuestion, asked));
  ASSIGN_OR_RETURN(auto answer, CutAt(kAnswer, whole));
  ASSIGN_OR_RETURN(texts.start_, tokenizer.Encode(document.first, false));
  texts.in_context_ = {std::move(in_context.first), std::move(in_context.second)};
  texts.alone_ = {std::move(alone.first), std::move(alone.second)};
  texts.answer_ = {"", std::move(answer.second)};
  return texts;
}

Result<TaughtQuestion> AskedForm::Ask(const std::string& question,
                                      const std::string& answer) const {
  TaughtQuestion taught;
  const auto encode = [&](const Around& around, const std::string& text) {
    return tokenizer_->Encode(around.before + text + around.behind, false);
  };
  ASSIGN_OR_RETURN(taught.behind, encode(in_context_, question));
  ASSIGN_OR_RETURN(taught.prompt, encode(alone_, question));
  taught.prompt.insert(taught.prompt.begin(), alone_start_.begin(), alone_start_.end());
  ASSIGN_OR_RETURN(taught.answer, encode(answer_, answer));
  return taught;
}

}  // namespace graft
