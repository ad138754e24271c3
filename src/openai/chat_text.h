// ChatText: what conversations are written and read with, the base's or what an adapter brings.
// AdapterTemplates: adapters' chat templates, parsed once for many requests.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/adapter_text.h"
#include "http/api_error.h"
#include "request/request.h"
#include "text/chat/chat_template.h"
#include "text/output/output_format.h"

namespace graft {

struct ApiContext;

struct ChatText {
  std::shared_ptr<const ChatTemplate> chat_template;  // null: chat is refused
  std::string error;  // why the template cannot be used, for clients; "": there is none
  std::string whose;  // for messages: "This model" or "This adapter"
  std::string bos_token;
  std::string eos_token;
  // How the model writes calls of tools and its reasoning.
  ToolFormat tool_format = ToolFormat::kNone;
  ReasoningFormat reasoning_format = ReasoningFormat::kNone;
};

// Thread-safe. Those that were used last are kept, up to a number and to a sum of source bytes.
class AdapterTemplates {
 public:
  static constexpr size_t kTemplatesMax = 256;
  static constexpr size_t kSourceBytesMax = size_t{4} << 20;

  // How calls and reasoning are written whatever a template shows; empty: as it shows.
  explicit AdapterTemplates(std::optional<ToolFormat> tool_format = std::nullopt,
                            std::optional<ReasoningFormat> reasoning_format = std::nullopt)
      : tool_format_(tool_format), reasoning_format_(reasoning_format) {}

  // `text` has a template. Without bos_token and eos_token.
  std::shared_ptr<const ChatText> Of(const AdapterTextPtr& text);

  size_t num_templates() const;
  size_t source_bytes() const;

 private:
  struct Entry {
    AdapterTextPtr text;
    std::shared_ptr<const ChatText> chat;
  };
  std::shared_ptr<const ChatText> Parse(const AdapterText& text) const;
  std::shared_ptr<const ChatText> Keep(const AdapterTextPtr& text,
                                       std::shared_ptr<const ChatText> chat);

  const std::optional<ToolFormat> tool_format_;
  const std::optional<ReasoningFormat> reasoning_format_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // that was used last in front
  std::unordered_map<const AdapterText*, std::list<Entry>::iterator> places_;
  size_t source_bytes_ = 0;
};

// For the adapter that brings `text`; null: the base's.
ChatText ChatTextOf(const ApiContext& context, const AdapterTextPtr& text);

// What the adapters of one request bring together.
class AskedTexts {
 public:
  // Adds the text of an adapter that acts. Its stop tokens end the answer as the request's own do.
  void Add(const AdapterTextPtr& text, SamplingParams* sampling);
  // What a conversation with all of them is written with: where several bring a template, it has to
  // be the same one.
  ApiResult<AdapterTextPtr> ForChat() const;

 private:
  AdapterTextPtr text_;
  bool differ_ = false;
};

}  // namespace graft
