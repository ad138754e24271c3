// ChatTemplate: a model's chat template renders messages to prompt text, byte for byte as Hugging
// Face does. The language is the part of Jinja that real templates use, interpreted by text/jinja.
// Immutable; any thread may render.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/adapter_text.h"
#include "base/json.h"
#include "base/status.h"
#include "text/text_range.h"

namespace graft {

struct RenderOptions {
  std::optional<int64_t> now;  // what strftime_now tells, Unix seconds; the clock's time if empty
  uint64_t work_max = 20'000'000;  // about one per node evaluated; a long chat takes 100,000
};

class ChatTemplate {
 public:
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `tool_source`, if not empty, is another template for conversations with tools.
  // kInvalidArgument: a syntax error. kUnimplemented names a construct that Graft does not have.
  // Both name the line.
  static Result<ChatTemplate> Parse(std::string_view source, std::string_view tool_source = "");

  // What an adapter brings, if it brings one.
  static Result<ChatTemplate> Parse(const AdapterText& text);

  // The template of the folder (see FindChatTemplate). Nothing if there is none.
  static Result<std::optional<ChatTemplate>> Load(const std::string& model_dir);

  // Returns the messages with contents in the form that the template wants. `messages` is a list of
  // objects with a "content": a string or a list of text parts (or null, which stays). Most
  // templates want strings, with parts joined by line feeds. Templates that walk over parts get
  // lists, and those that look only at the first part get lists of one. The form was found by trial
  // renderings when the template was parsed (text/chat/content_form.h), for each role, and
  // separately for conversations with tools.
  OrderedJson FitContents(OrderedJson messages, bool with_tools) const;

  // Whether the template shows several system messages at the start one by one. Other templates
  // refuse the second one or leave it out. This is found by trial renderings, too. A template for
  // all conversations gives the same answer with tools.
  bool TakesSeveralSystems(bool with_tools) const;

  // The text of the template that renders conversations with tools.
  const std::string& tool_source() const;

  // `context` is an object with the values that the template names: messages,
  // add_generation_prompt, bos_token, eos_token, tools, ... kInvalidArgument: the template refuses
  // the messages (raise_exception) or cannot work with them. kUnimplemented: it calls a method that
  // Graft does not have. kResourceExhausted: it exceeds the limits on work, memory or output.
  //
  // `*untrusted`, if not null, is set to the ranges of the text that come from the context, and so
  // from the writer of the messages. The values of bos_token and eos_token, and roles that are
  // plain words, do not count. If a filter mixes trusted and untrusted text so that they cannot be
  // told apart, all of it is untrusted.
  Result<std::string> Render(const OrderedJson& context, const RenderOptions& options = {},
                             TextRanges* untrusted = nullptr) const;

 private:
  struct Tree;
  explicit ChatTemplate(std::unique_ptr<Tree> tree);

  std::unique_ptr<Tree> tree_;
};

}  // namespace graft
