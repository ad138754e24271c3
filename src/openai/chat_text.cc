#include "openai/chat_text.h"

#include <algorithm>
#include <utility>

#include "openai/api_context.h"

namespace graft {
namespace {

size_t SourceBytesOf(const AdapterText& text) {
  return text.chat_template.size() + text.tool_template.size() + text.template_error.size();
}

bool WriteTheSame(const AdapterText& one, const AdapterText& other) {
  return one.chat_template == other.chat_template && one.tool_template == other.tool_template &&
         one.template_error == other.template_error && one.bos_token == other.bos_token &&
         one.eos_token == other.eos_token;
}

ChatText BaseChatText(const ApiContext& context) {
  // The context outlives every request.
  return {.chat_template = {std::shared_ptr<const void>(), context.chat_template},
          .error = context.chat_template_error,
          .whose = "This model",
          .bos_token = context.tokenizer.bos_token(),
          .eos_token = context.tokenizer.eos_token(),
          .tool_format = context.tool_format,
          .reasoning_format = context.reasoning_format};
}

}  // namespace

std::shared_ptr<const ChatText> AdapterTemplates::Of(const AdapterTextPtr& text) {
  {
    const std::lock_guard lock(mutex_);
    const auto place = places_.find(text.get());
    if (place != places_.end()) {
      entries_.splice(entries_.begin(), entries_, place->second);
      return place->second->chat;
    }
  }
  return Keep(text, Parse(*text));
}

std::shared_ptr<const ChatText> AdapterTemplates::Parse(const AdapterText& text) const {
  auto chat = std::make_shared<ChatText>();
  chat->whose = "This adapter";
  Result<ChatTemplate> parsed = ChatTemplate::Parse(text);
  if (!parsed.ok()) {
    chat->error = parsed.status().message();
    return chat;
  }
  chat->chat_template = std::make_shared<const ChatTemplate>(*std::move(parsed));
  const std::string& shown = chat->chat_template->tool_source();
  chat->tool_format = tool_format_.value_or(DetectToolFormat(shown));
  chat->reasoning_format = reasoning_format_.value_or(DetectReasoningFormat(shown));
  return chat;
}

std::shared_ptr<const ChatText> AdapterTemplates::Keep(const AdapterTextPtr& text,
                                                       std::shared_ptr<const ChatText> chat) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(text.get());
  if (place != places_.end()) return place->second->chat;  // another request was faster
  entries_.push_front({text, std::move(chat)});
  places_[text.get()] = entries_.begin();
  source_bytes_ += SourceBytesOf(*text);
  while (entries_.size() > 1 &&
         (entries_.size() > kTemplatesMax || source_bytes_ > kSourceBytesMax)) {
    source_bytes_ -= SourceBytesOf(*entries_.back().text);
    places_.erase(entries_.back().text.get());
    entries_.pop_back();
  }
  return entries_.front().chat;
}

size_t AdapterTemplates::num_templates() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

size_t AdapterTemplates::source_bytes() const {
  const std::lock_guard lock(mutex_);
  return source_bytes_;
}

ChatText ChatTextOf(const ApiContext& context, const AdapterTextPtr& text) {
  ChatText chat = BaseChatText(context);
  if (text == nullptr) return chat;
  if (text->brings_template()) {
    std::string bos_token = std::move(chat.bos_token);
    std::string eos_token = std::move(chat.eos_token);
    chat = *context.adapter_templates->Of(text);
    chat.bos_token = std::move(bos_token);
    chat.eos_token = std::move(eos_token);
  }
  if (!text->bos_token.empty()) chat.bos_token = text->bos_token;
  if (!text->eos_token.empty()) chat.eos_token = text->eos_token;
  return chat;
}

void AskedTexts::Add(const AdapterTextPtr& text, SamplingParams* sampling) {
  if (text == nullptr) return;
  std::vector<int32_t>& stops = sampling->stop_token_ids;
  for (const int32_t token : text->stop_token_ids) {
    const bool is_known = std::find(stops.begin(), stops.end(), token) != stops.end();
    if (!is_known && !sampling->ignore_eos) stops.push_back(token);
  }
  if (!text->brings_template() && text->bos_token.empty() && text->eos_token.empty()) return;
  differ_ = differ_ || (text_ != nullptr && !WriteTheSame(*text_, *text));
  text_ = text;
}

ApiResult<AdapterTextPtr> AskedTexts::ForChat() const {
  if (!differ_) return text_;
  return InvalidRequestError("adapters",
                             "These 'adapters' bring different chat templates, and nothing says "
                             "which of them holds; use /v1/completions.");
}

}  // namespace graft
