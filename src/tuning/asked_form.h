// AskedForm: the form of a question and its answer, rendered once, so that thousands of questions
// cost no template each. Immutable; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "learn/corpus_run.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace graft {

class AskedForm {
 public:
  // `chat`: nothing for plain text. The tokenizer outlives the object. kUnimplemented if the
  // template changes the text of a message.
  static Result<AskedForm> Make(const std::optional<ChatTemplate>& chat,
                                const Tokenizer& tokenizer);

  // What stands before a document that is read.
  const std::vector<int32_t>& start() const { return start_; }
  // How many tokens begin every prompt: mostly BOS, or none.
  int32_t prompt_start() const { return static_cast<int32_t>(tokenizer_->prefix_ids().size()); }
  // Without begin and end.
  Result<TaughtQuestion> Ask(const std::string& question, const std::string& answer) const;

 private:
  explicit AskedForm(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // What stands around a text.
  struct Around {
    std::string before, behind;
  };
  const Tokenizer* tokenizer_;
  std::vector<int32_t> start_;
  Around in_context_, alone_, answer_;
  std::vector<int32_t> alone_start_;  // of a prompt in plain text
};

}  // namespace graft
