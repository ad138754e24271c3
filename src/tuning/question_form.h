// The questions that a base asks itself about a document, in the words that users will ask in: a
// chat's message, or "Question: ...", "Answer:". Immutable.
#pragma once

#include <memory>
#include <optional>

#include "base/status.h"
#include "learn/learner.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace graft {

// `chat`: nothing for plain text. The tokenizer outlives it. kUnimplemented where the template
// changes what is said.
Result<std::shared_ptr<const QuestionForm>> MakeQuestionForm(std::optional<ChatTemplate> chat,
                                                             const Tokenizer& tokenizer);

}  // namespace graft
