// How texts are asked for: as text that a base goes on with, or by a chat template's messages. Pure
// functions, but for the template's file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "learn/learner.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace graft {

// kFailedPrecondition where the folder has none.
Result<ChatTemplate> LoadChatTemplate(const std::string& model_dir);

struct ChatMessage {
  const char* role;
  std::string content;
};
// A chat as the model reads it. `asks`: an answer is to follow.
Result<std::string> RenderMessages(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                   const std::vector<ChatMessage>& messages, bool asks);

// `text` behind the window.
Result<DistillPrompt> PlainPrompt(const Tokenizer& tokenizer, const std::string& text);
// A message of the window and the instruction; the student's has the instruction alone.
Result<DistillPrompt> ChatPrompt(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                 const std::string& instruction);

// A question in plain text, which the answer follows.
std::string PlainQuestion(const std::string& question);
// What a user's message makes of a chat: as a server sends it to the model.
Result<std::vector<int32_t>> AskedMessage(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                          const std::string& message);

// A question in plain text, or in a message, and the answer with what ends it. `chat`: null for
// plain text.
Result<TaskQuestion> TaskQuestionOf(const ChatTemplate* chat, const Tokenizer& tokenizer,
                                    const std::string& question, const std::string& answer);

// Makes the form of the questions that a base asks itself about a document. The form is the one in
// which users will ask: a chat's message, or "Question: ...", "Answer:". `chat`: nothing for plain
// text. The tokenizer outlives the form, which is immutable. kUnimplemented if the template changes
// the text of a message.
Result<std::shared_ptr<const QuestionForm>> MakeQuestionForm(std::optional<ChatTemplate> chat,
                                                             const Tokenizer& tokenizer);

}  // namespace graft
