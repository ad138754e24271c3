// OpenAI's response bodies, whole and in server-sent events. Text is appended to a string rather
// than built as a JSON tree where it happens per token. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "openai/answer_writer.h"
#include "request/adapter_catalog.h"
#include "text/tokenizer.h"

namespace graft {

// The values that every body of one response repeats.
struct ResponseHead {
  bool is_chat = false;
  bool logprobs = false;           // asked for; otherwise the field is null
  bool prompt_logprobs = false;    // the same for the prompt's
  bool include_usage = false;      // every chunk but the last then says "usage": null
  bool continuous_usage = false;   // or the usage so far
  bool shows_token_ids = false;    // tokens of log-probabilities are named by their ids
  bool returns_token_ids = false;  // pieces have them
  bool short_call_ids = false;     // see NewCallId
  std::string id;                  // "cmpl-..." or "chatcmpl-..."
  std::string model;               // as the client named it
  int64_t created = 0;             // Unix seconds
};

// Writes the answers of completions and chats.
class ResponseWriter : public AnswerWriter {
 public:
  ResponseWriter(const Tokenizer& tokenizer, ResponseHead head);

  void SetUsage(const ResponseUsage& usage) override { usage_ = usage; }
  // Chat's first event of a choice holds the role alone; completions have none.
  void AppendBeginning(int32_t idx, std::string* out) override;
  // Chat gets its finish in an event of its own, as OpenAI sends it.
  void AppendChunk(int32_t idx, const ChoicePiece& piece, FinishReason finish,
                   std::string* out) override;
  void AppendEnd(const ResponseUsage& usage, std::string* out) override;
  void AppendError(const ApiError& error, std::string* out) override;
  std::string Body(std::vector<ChoicePiece> pieces, const std::vector<FinishReason>& finishes,
                   const ResponseUsage& usage) override;

 private:
  // What every body of this kind begins with, up to its choices.
  std::string Beginning(const char* object) const;
  // `more`: fields behind the choices.
  void AppendEvent(std::string_view choice, std::string* out, std::string_view more = "") const;
  void AppendTextChoice(int32_t idx, const ChoicePiece& piece, FinishReason finish,
                        std::string* out) const;
  void AppendChatChunks(int32_t idx, const ChoicePiece& piece, FinishReason finish,
                        std::string* out) const;
  void AppendTokenIds(const ChoicePiece& piece, std::string* out) const;
  void AppendLogprobs(const ChoicePiece& piece, std::string* out) const;
  void AppendCompletionLogprobs(const ChoicePiece& piece, std::string* out) const;

  const Tokenizer& tokenizer_;
  const ResponseHead head_;
  const std::string chunk_prefix_;  // of every event, up to the choices
  ResponseUsage usage_;             // so far
};

// Entries of /v1/models.
void AppendBaseModel(const std::string& name, const std::string& revision, int64_t created,
                     int32_t context_tokens_max, std::string* out);
void AppendAdapterModel(const AdapterInfo& adapter, AdapterState state,
                        const std::string& base_model, int32_t context_tokens_max, bool with_tenant,
                        std::string* out);

}  // namespace graft
