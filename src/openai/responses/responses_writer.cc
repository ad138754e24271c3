#include "openai/responses/responses_writer.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "openai/chat_answer.h"
#include "openai/token_logprobs.h"

namespace graft {
namespace {

// The events of a text, behind "response.".
struct TextEvents {
  const char* delta;
  const char* done;
};

TextEvents EventsOf(OutputItem::Kind kind) {
  switch (kind) {
    case OutputItem::Kind::kMessage:
      return {"response.output_text.delta", "response.output_text.done"};
    case OutputItem::Kind::kReasoning:
      return {"response.reasoning_text.delta", "response.reasoning_text.done"};
    case OutputItem::Kind::kCall:
      return {"response.function_call_arguments.delta", "response.function_call_arguments.done"};
  }
  return {};
}

std::string Field(const char* name, const std::string& text) {
  return std::string(",\"") + name + "\":" + JsonString(text);
}

}  // namespace

ResponsesWriter::ResponsesWriter(const ApiContext& context, ResponseHead head, ResponseTurn turn)
    : context_(context), head_(std::move(head)), turn_(std::move(turn)) {}

void ResponsesWriter::AppendEvent(const char* type, const std::string& fields, std::string* out) {
  if (out == nullptr) return;
  *out += std::string("event: ") + type + "\ndata: {\"type\":\"" + type +
          "\",\"sequence_number\":" + std::to_string(num_events_++) + fields + "}\n\n";
}

void ResponsesWriter::AppendResponseEvent(const char* type, const std::string& response,
                                          std::string* out) {
  AppendEvent(type, ",\"response\":" + response, out);
}

std::string ResponsesWriter::Place() const {
  std::string place =
      Field("item_id", items_.back().id) + ",\"output_index\":" + std::to_string(items_.size() - 1);
  return items_.back().kind == Kind::kCall ? place : place + ",\"content_index\":0";
}

void ResponsesWriter::Open(Kind kind, const std::string& name, std::string* out) {
  Close("completed", out);
  OutputItem item{.kind = kind, .id = RandomName(IdPrefix(kind)), .name = name};
  if (kind == Kind::kCall) item.call_id = NewCallId(head_.short_call_ids);
  items_.push_back(std::move(item));
  is_open_ = true;
  const OutputItem& opened = items_.back();
  AppendEvent(
      "response.output_item.added",
      ",\"output_index\":" + std::to_string(items_.size() - 1) + ",\"item\":" + NewItemJson(opened),
      out);
  if (kind == Kind::kCall) return;
  AppendEvent("response.content_part.added", Place() + ",\"part\":" + PartJson(opened, "", ""),
              out);
}

void ResponsesWriter::AddText(Kind kind, const std::string& text, std::string* out) {
  if (text.empty()) return;
  if (!is_open_ || items_.back().kind != kind) Open(kind, "", out);
  items_.back().text += text;
  std::string fields = Place() + Field("delta", text);
  if (kind == Kind::kMessage) fields += ",\"logprobs\":[" + std::exchange(new_logprobs_, "") + "]";
  AppendEvent(EventsOf(kind).delta, fields, out);
}

void ResponsesWriter::Close(const char* status, std::string* out) {
  if (!is_open_) return;
  is_open_ = false;
  OutputItem& item = items_.back();
  item.status = status;
  const bool is_call = item.kind == Kind::kCall;
  const std::string logprobs = item.kind == Kind::kMessage ? logprobs_ : "";
  std::string fields = Place() + Field(is_call ? "arguments" : "text", item.text);
  if (is_call) fields += Field("name", item.name);
  if (item.kind == Kind::kMessage) fields += ",\"logprobs\":[" + logprobs + "]";
  AppendEvent(EventsOf(item.kind).done, fields, out);
  if (!is_call) {
    AppendEvent("response.content_part.done",
                Place() + ",\"part\":" + PartJson(item, item.text, logprobs), out);
  }
  AppendEvent("response.output_item.done",
              ",\"output_index\":" + std::to_string(items_.size() - 1) +
                  ",\"item\":" + ItemJson(item, logprobs),
              out);
}

void ResponsesWriter::DropCall(const std::string& text, std::string* out) {
  // A stream cannot take it back: it stays as far as it went.
  if (out != nullptr) return Close("incomplete", out);
  items_.pop_back();
  is_open_ = !items_.empty() && items_.back().kind == Kind::kMessage;
  AddText(Kind::kMessage, text, out);
}

void ResponsesWriter::WritePart(const OutputPart& part, std::string* out) {
  switch (part.kind) {
    case OutputPart::Kind::kContent:
      return AddText(Kind::kMessage, part.text, out);
    case OutputPart::Kind::kReasoning:
      return AddText(Kind::kReasoning, part.text, out);
    case OutputPart::Kind::kCall:
      return Open(Kind::kCall, part.text, out);
    case OutputPart::Kind::kArguments:
      return AddText(Kind::kCall, part.text, out);
    case OutputPart::Kind::kCallEnd:
      return Close("completed", out);
    case OutputPart::Kind::kCallDropped:
      return DropCall(part.text, out);
  }
}

void ResponsesWriter::Write(const ChoicePiece& piece, FinishReason finish, std::string* out) {
  if (head_.logprobs && !piece.logprobs.empty()) {
    for (std::string* list : {&logprobs_, &new_logprobs_}) {
      AppendComma(list->size(), list);
      AppendTokenLogprobs(context_.tokenizer, piece, head_.shows_token_ids, list);
    }
  }
  AddText(Kind::kMessage, piece.text, out);
  for (const OutputPart& part : piece.parts) WritePart(part, out);
  if (finish == FinishReason::kNone) return;
  finish_ = finish;
  if (items_.empty()) Open(Kind::kMessage, "", out);  // an answer of no text is one all the same
  Close(finish == FinishReason::kLength ? "incomplete" : "completed", out);
}

void ResponsesWriter::AppendBeginning(int32_t /*idx*/, std::string* out) {
  const std::string response = ResponseJson("in_progress", "", "");
  AppendResponseEvent("response.created", response, out);
  AppendResponseEvent("response.in_progress", response, out);
}

void ResponsesWriter::AppendChunk(int32_t /*idx*/, const ChoicePiece& piece, FinishReason finish,
                                  std::string* out) {
  Write(piece, finish, out);
}

void ResponsesWriter::AppendEnd(const ResponseUsage& usage, std::string* out) {
  const std::string json = FinalJson(usage);
  Store(json);
  AppendResponseEvent(
      finish_ == FinishReason::kLength ? "response.incomplete" : "response.completed", json, out);
}

void ResponsesWriter::AppendError(const ApiError& error, std::string* out) {
  const char* code = error.http_status == 429 ? "rate_limit_exceeded" : "server_error";
  const std::string more =
      std::string(",\"error\":{\"code\":\"") + code + "\"" + Field("message", error.message) + "}";
  Close("incomplete", out);
  AppendResponseEvent("response.failed", ResponseJson("failed", OutputJson(), more), out);
}

std::string ResponsesWriter::Body(std::vector<ChoicePiece> pieces,
                                  const std::vector<FinishReason>& finishes,
                                  const ResponseUsage& usage) {
  Write(pieces.at(0), finishes.at(0), nullptr);
  std::string json = FinalJson(usage);
  Store(json);
  return json;
}

std::string ResponsesWriter::ResponseJson(const char* status, const std::string& output,
                                          const std::string& more) const {
  return "{\"id\":\"" + head_.id +
         "\",\"object\":\"response\",\"created_at\":" + std::to_string(head_.created) +
         ",\"status\":\"" + status + "\"," + turn_.repeated + ",\"output\":[" + output + "]" +
         more + "}";
}

// The log-probabilities of all tokens, those of reasoning and calls too, are the first message's.
std::string ResponsesWriter::OutputJson() const {
  std::string json;
  bool has_message = false;
  for (size_t i = 0; i < items_.size(); ++i) {
    const bool is_first = items_[i].kind == Kind::kMessage && !has_message;
    has_message = has_message || is_first;
    AppendComma(i, &json);
    json += ItemJson(items_[i], is_first ? logprobs_ : "");
  }
  return json;
}

int64_t ResponsesWriter::kept_bytes() const {
  auto bytes = static_cast<int64_t>(logprobs_.size());
  for (const OutputItem& item : items_) bytes += static_cast<int64_t>(item.text.size());
  return bytes;
}

std::string ResponsesWriter::UsageJson(const ResponseUsage& usage) const {
  size_t reasoning_tokens = 0;
  for (const OutputItem& item : items_) {
    if (item.kind != Kind::kReasoning) continue;
    const auto tokens = context_.tokenizer.Encode(item.text, /*add_special_tokens=*/false);
    reasoning_tokens += tokens.ok() ? tokens->size() : 0;
  }
  return "{\"input_tokens\":" + std::to_string(usage.prompt_tokens) +
         ",\"input_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached_tokens) +
         ",\"cache_write_tokens\":0},\"output_tokens\":" + std::to_string(usage.output_tokens) +
         ",\"output_tokens_details\":{\"reasoning_tokens\":" + std::to_string(reasoning_tokens) +
         "},\"total_tokens\":" + std::to_string(usage.prompt_tokens + usage.output_tokens) + "}";
}

std::string ResponsesWriter::FinalJson(const ResponseUsage& usage) const {
  const bool is_cut = finish_ == FinishReason::kLength;
  return ResponseJson(is_cut ? "incomplete" : "completed", OutputJson(),
                      std::string(",\"error\":null,\"incomplete_details\":") +
                          (is_cut ? "{\"reason\":\"max_output_tokens\"}" : "null") +
                          ",\"usage\":" + UsageJson(usage));
}

void ResponsesWriter::Store(const std::string& json) {
  if (turn_.store == nullptr) return;
  turn_.store->Put(turn_.tenant, {.id = head_.id,
                                  .previous_id = turn_.previous_id,
                                  .model = head_.model,
                                  .json = json,
                                  .input = turn_.input,
                                  .output = "[" + OutputJson() + "]"});
}

}  // namespace graft
