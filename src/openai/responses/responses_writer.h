// A response of /v1/responses: a list of items, whole or as numbered events in OpenAI's order. When
// it has ended it goes into the store, before the client is told its end. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openai/answer_writer.h"
#include "openai/api_context.h"
#include "openai/openai_response.h"
#include "openai/responses/output_item.h"
#include "openai/responses/response_turn.h"

namespace graft {

class ResponsesWriter : public AnswerWriter {
 public:
  ResponsesWriter(const ApiContext& context, ResponseHead head, ResponseTurn turn);

  void AppendBeginning(int32_t idx, std::string* out) override;
  void AppendChunk(int32_t idx, const ChoicePiece& piece, FinishReason finish,
                   std::string* out) override;
  void AppendEnd(const ResponseUsage& usage, std::string* out) override;
  void AppendError(const ApiError& error, std::string* out) override;
  // The last event repeats all items, and reasoning is tokenised to be counted.
  int64_t kept_bytes() const override;
  std::string Body(std::vector<ChoicePiece> pieces, const std::vector<FinishReason>& finishes,
                   const ResponseUsage& usage) override;

 private:
  using Kind = OutputItem::Kind;

  // Each writes its events to `out`, or none where that is null.
  void Write(const ChoicePiece& piece, FinishReason finish, std::string* out);
  void WritePart(const OutputPart& part, std::string* out);
  void AddText(Kind kind, const std::string& text, std::string* out);
  void Open(Kind kind, const std::string& name, std::string* out);
  void Close(const char* status, std::string* out);
  // The last call was none after all.
  void DropCall(const std::string& text, std::string* out);

  void AppendEvent(const char* type, const std::string& fields, std::string* out);
  void AppendResponseEvent(const char* type, const std::string& response, std::string* out);
  // "item_id", "output_index" and, where it has parts, "content_index" of the last item.
  std::string Place() const;
  // The response in a certain state; `more` are further fields.
  std::string ResponseJson(const char* status, const std::string& output,
                           const std::string& more) const;
  std::string OutputJson() const;
  std::string FinalJson(const ResponseUsage& usage) const;
  std::string UsageJson(const ResponseUsage& usage) const;
  void Store(const std::string& json);

  const ApiContext& context_;
  const ResponseHead head_;
  ResponseTurn turn_;
  std::vector<OutputItem> items_;
  bool is_open_ = false;      // the last item goes on
  std::string logprobs_;      // of all tokens so far, a list without its brackets
  std::string new_logprobs_;  // those of no event yet
  FinishReason finish_ = FinishReason::kNone;
  int64_t num_events_ = 0;
};

}  // namespace graft
